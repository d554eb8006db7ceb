"""The figures of a result, each a frame first (`figures/<name>.parquet`) and drawn second.

registry.py    the figures by name, what `all` adds, and why some cannot be made from a result
style.py       colours, type and how a chart becomes SVG or PNG; one colour a pool in every figure
live.py        what a drawing can do on a screen: words under the pointer, a pool picked out, time looked at closer
sheet.py       a figure's rows as a table
series.py      means over seeds and stretches of time
*.py           the figures themselves: `frame(result)` for all variants; `draw(rows, look)`, `alt(rows)` and
               `sheet(rows)` for one
"""
