"""Checks what `rlxc plan --json` prints, without rlxc's code: that no two buffers share bytes while both live, and that the lower bound
holds. It reads a plan file, or standard input:

    rlxc plan bert-tiny --dim batch=1 --dim seq=128 --json | python verify_plan.py

It covers all modes but arena (tlsf), whose lanes and levels have more rules, and prints a line a stage.
"""

import json
import sys


def up(n, to):
    return -(-n // to) * to


def blocks(problem, plan):
    """The planned buffers, groups joined: by device a dict from a buffer's index or its group to (first, last, low, bytes, align, fixed,
    guard, gaps)."""
    options = plan["options"]
    align = options.get("alignment", 0) or 1
    devices, names = {}, {}
    for i, (b, slot) in enumerate(zip(problem["buffers"], plan["slots"], strict=True)):
        size = b["size"]
        if options.get("uniform_element_size") and b.get("elements"):
            size = 4 * b["elements"]
        names[i] = ("group", b["group"]) if b.get("group") else i
        if slot["arena"] < 0:
            assert i in [u["buffer"] for u in plan.get("unplanned", [])], f"buffer {b['id']} has no memory and no reason why"
            continue
        arena = plan["arenas"][slot["arena"]]
        if not size or arena.get("weights"):
            continue
        assert slot["size"] == size, f"buffer {b['id']} has {slot['size']} bytes, it needs {size}"
        guard = max(align, 128) if options.get("tail_guard") and b.get("boundary", "none") != "none" else 0
        size += guard
        own = max(align, b.get("align", 0) or 1)
        assert slot["offset"] % own == 0, f"buffer {b['id']} lies at {slot['offset']}, no multiple of {own}"
        assert 0 <= slot["offset"] and slot["offset"] + size <= arena["size"], f"buffer {b['id']} leaves its arena"
        low = arena.get("start", 0) + slot["offset"]
        if b.get("fixed"):
            assert low == b.get("offset", 0), f"buffer {b['id']} is fixed at {b.get('offset', 0)} and lies at {low}"
        device = devices.setdefault(b.get("lane", {}).get("device", 0), {})
        first, last, at, bytes_, common, fixed, _, _ = device.get(names[i], (b["first"], b["last"], low, 0, 1, False, 0, []))
        assert at == low, f"buffer {b['id']} lies apart from its group"
        device[names[i]] = (min(first, b["first"]), max(last, b["last"]), low, max(bytes_, size), max(common, own),
                            fixed or b.get("fixed", False), guard, b.get("gaps", []))
    return devices, names


def uses(block):
    """What a block takes when: (first, last, low, high) for each run of steps between its gaps and in them."""
    first, last, low, size, _, _, guard, gaps = block
    for gap in gaps:
        yield first, gap["first"], low, low + size
        if gap.get("high", 0) > gap.get("low", 0):
            yield gap["first"], gap["last"], low + gap.get("low", 0), low + gap["high"] + guard
        first = gap["last"]
    yield first, last, low, low + size


def disjoint(device):
    """Fails if two blocks share bytes while both live: goes over time, and compares what begins with what lives."""
    live = []
    for first, last, low, high in sorted(use for block in device.values() for use in uses(block) if use[0] < use[1]):
        live = [other for other in live if other[0] > first]
        for other in live:
            assert low >= other[2] or other[1] >= high, f"bytes {low} to {high} and {other[1]} to {other[2]} overlap at step {first}"
        live.append((last, low, high))


def proved(bound, device, names, align):
    """The bytes that a bound proves of a device."""
    lows = [gap["low"] for *_, gaps in device.values() for gap in gaps if gap.get("low")]
    grain = min([block[4] for block in device.values()] + [low & -low for low in lows])
    members = [names[i] for i in bound["buffers"] or []]
    assert len(set(members)) == len(members), "a buffer counts twice"
    padding = max(up(device[m][3], grain) - up(device[m][3], min(grain, align)) for m in members)  # one of them is highest
    total = 0
    for block in (device[m] for m in members):
        now = [use for use in uses(block) if use[0] <= bound["step"] < use[1]]
        assert now, f"a buffer does not live at step {bound['step']}"
        assert not bound.get("end") or block[5] and len(members) == 1, "only a fixed buffer ends the memory"
        total += block[2] + up(block[3], grain) if bound.get("end") else up(now[0][3] - now[0][2], grain)
    return up(total - padding, align)


def verify(stage):
    problem, plan = stage["problem"], stage["plan"]
    align = plan["options"].get("alignment", 0) or 1
    devices, names = blocks(problem, plan)
    for device in devices.values():
        disjoint(device)
    committed = sum(a["size"] for a in plan["arenas"] if not a.get("weights"))
    assert committed == plan["committed"], f"the arenas have {committed} bytes, not {plan['committed']}"
    for bound in stage["bounds"]:
        found = proved(bound, devices.get(bound.get("device", 0), {}), names, align) if bound["buffers"] else 0
        assert found == bound["bytes"], f"the bound proves {found} bytes, not {bound['bytes']}"
    total = sum(bound["bytes"] for bound in stage["bounds"])
    assert total == plan["lower_bound"] <= committed, f"the bounds prove {total} bytes, not {plan['lower_bound']}"
    print(f"ok: {committed} bytes, and no plan has less than {total}")


def main():
    with open(sys.argv[1]) if len(sys.argv) > 1 else sys.stdin as file:
        report = json.load(file)
    for stage in [report, *report.get("stages", [])]:
        if stage.get("plan"):
            verify(stage)


main()
