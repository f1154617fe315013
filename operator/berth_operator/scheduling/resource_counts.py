"""What is left of one node's resources, such as cpu and memory, written into the node table."""

from berth_operator.scheduling import node_table
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.node_info import NodeInfo
from berth_operator.scheduling.nodes import facts


def take(table: node_table.NodeTable, info: NodeInfo, hold: Hold, sign: int) -> None:
    """Add what a hold takes of each resource to what is used of the node, or with -1 subtract it."""
    amounts, given, columns = info.amounts, info.given, table.resources.of
    for name, amount in hold.amounts:
        used = amounts[name] = amounts.get(name, 0) + sign * amount
        if not used:
            del amounts[name]
        if (total := given.get(name)) is not None:
            # Exact sums may exceed 64 bits.
            table.left[info.row, columns[name]] = total - min(used, facts.LARGEST)


def set_allocatable(table: node_table.NodeTable, info: NodeInfo, allocatable: facts.Amounts) -> None:
    """Record all that a node can give."""
    table.allocatable[info.row] = table.left[info.row] = node_table.ABSENT
    table.use_resources(info.row, (name for name, _ in allocatable))
    info.given = {name: amount for name, amount in allocatable if name in table.resources.of}
    for name, amount in info.given.items():
        column = table.resources.of[name]
        table.allocatable[info.row, column] = table.left[info.row, column] = amount
    for name, used in info.amounts.items():
        # Of what the node does not have nothing is left, whatever pods on it ask for.
        if name in info.given:
            table.left[info.row, table.resources.of[name]] = info.given[name] - min(used, facts.LARGEST)
