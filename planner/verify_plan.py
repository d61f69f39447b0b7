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
    """The planned buffers, groups joined: by device a dict from a buffer's index or its group to (first, last, low, bytes, align, fixed)."""
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
        if options.get("tail_guard") and b.get("boundary", "none") != "none":
            size += max(align, 128)
        own = max(align, b.get("align", 0) or 1)
        assert slot["offset"] % own == 0, f"buffer {b['id']} lies at {slot['offset']}, no multiple of {own}"
        assert 0 <= slot["offset"] and slot["offset"] + size <= arena["size"], f"buffer {b['id']} leaves its arena"
        low = arena.get("start", 0) + slot["offset"]
        if b.get("fixed"):
            assert low == b.get("offset", 0), f"buffer {b['id']} is fixed at {b.get('offset', 0)} and lies at {low}"
        device = devices.setdefault(b.get("lane", {}).get("device", 0), {})
        first, last, at, bytes_, common, fixed = device.get(names[i], (b["first"], b["last"], low, 0, 1, False))
        assert at == low, f"buffer {b['id']} lies apart from its group"
        device[names[i]] = (min(first, b["first"]), max(last, b["last"]), low, max(bytes_, up(size, align)), max(common, own),
                            fixed or b.get("fixed", False))
    return devices, names


def disjoint(device):
    """Fails if two blocks share bytes while both live: goes over time, and compares what begins with what lives."""
    live = []
    for block in sorted(device.values()):
        first, _, low, size, _, _ = block
        live = [other for other in live if other[1] > first]
        for other in live:
            assert low >= other[2] + other[3] or other[2] >= low + size, f"{block} and {other} overlap"
        live.append(block)


def proved(bound, device, names):
    """The bytes that a bound proves of a device."""
    grain = min(align for *_, align, _ in device.values())
    slack = max(up(size, grain) - size for _, _, _, size, _, _ in device.values())
    members = [names[i] for i in bound["buffers"] or []]
    assert len(set(members)) == len(members), "a buffer counts twice"
    total = 0
    for first, last, low, size, _, fixed in (device[m] for m in members):
        assert first <= bound["step"] < last, f"a buffer does not live at step {bound['step']}"
        assert not bound.get("end") or fixed and len(members) == 1, "only a fixed buffer ends the memory"
        total += up(size, grain) + (low if bound.get("end") else 0)
    return max(0, total - slack)


def verify(stage):
    problem, plan = stage["problem"], stage["plan"]
    devices, names = blocks(problem, plan)
    for device in devices.values():
        disjoint(device)
    committed = sum(a["size"] for a in plan["arenas"] if not a.get("weights"))
    assert committed == plan["committed"], f"the arenas have {committed} bytes, not {plan['committed']}"
    for bound in stage["bounds"]:
        found = proved(bound, devices.get(bound.get("device", 0), {}), names) if bound["buffers"] else 0
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
