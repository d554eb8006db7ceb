"""What is true of the world, with no arithmetic: chips, racks, models, sites, prices, engines, failures, headlines.

Start at `catalog.load()`: names -> typed things of `schema`, every value a `Fact` (value, range, grade, sources).
`data/` holds one thing in one file; `schema`, `model_schema` and `tables` say key by key what a file may hold;
`reading` turns nodes into facts and faults, `things` files into things; `headline` and `loose` read the files that are
no plain tables. `catalog.read_file` reads a person's own file by the same rules.
"""
