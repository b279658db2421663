"""Elements side by side, column by column, in the total order of events.

Begin with `bundle` and `order`; then `lanes` and `value_lanes`, the columns, `order_lanes`, orders as columns, and
`chunk`, the events of consecutive instants. `watermarks` are those of a chunk.
"""
