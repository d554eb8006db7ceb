"""The figures of a result, each a frame first (`figures/<name>.parquet`) and drawn second.

registry.py    the figures by name, what `all` adds, and why some cannot be made from a result
style.py       colours, type and how a chart becomes SVG or PNG; one colour a pool in every figure
series.py      means over seeds and stretches of time
*.py           the figures themselves: `frame(result)` for all variants, `draw(rows, look)` for one
"""
