"""Checks what `rlxc plan --json` prints, without rlxc's code: that no two buffers share bytes while both live, and that the lower bound
holds. It reads plan files, or standard input:

    rlxc plan bert-tiny --dim batch=1 --dim seq=128 --json | python verify_plan.py

It covers all modes but arena (tlsf), whose lanes and levels have more rules, and prints a line a stage. It exits with 1 for a plan that
is wrong, and for a file without a plan. `rlxc plan --check` accepts and refuses the same files.
"""

import bisect
import json
import sys


def up(n, to):
    return -(-n // to) * to


def want(holds, what):
    if not holds:
        raise ValueError(what)


def segment_of(problem, options):
    """The bytes of a segment, a multiple of every alignment that fits in one; 0 for none."""
    segment, align = options.get("segment", 0), options.get("alignment", 0) or 1
    aligns = [max(align, b.get("align", 0) or 1) for b in problem["buffers"]]
    return segment - segment % max([align] + [a for a in aligns if a <= segment])


def unplanned(b, extent, own, segment, options):
    """Whether the options leave a buffer without memory. extent is its bytes with its guard, own its alignment."""
    kind = b.get("boundary", "none")
    left_out = {"param": "allocate_params", "input": "allocate_inputs", "constant": "allocate_constants"}
    if kind == "device-tensor" or kind in left_out and not options.get(left_out[kind]):
        return True
    return options.get("segment", 0) > 0 and extent > options["segment"] or segment > 0 and max(extent, own) > segment


def blocks(problem, plan):
    """The planned buffers, groups joined: by device a dict from a buffer's index or its group to (first, last, low, bytes, align, fixed,
    guard, gaps)."""
    options, arenas = plan["options"], plan["arenas"]
    align, segment = options.get("alignment", 0) or 1, segment_of(problem, options)
    devices, names, weights = {}, {}, {}
    listed = [u["buffer"] for u in plan.get("unplanned") or []]
    want(listed == [i for i, slot in enumerate(plan["slots"]) if slot["arena"] < 0], "unplanned lists other buffers than have no memory")
    for i, (b, slot) in enumerate(zip(problem["buffers"], plan["slots"], strict=True)):
        size, kind, device = b["size"], b.get("boundary", "none"), b.get("lane", {}).get("device", 0)
        if options.get("uniform_element_size") and b.get("elements"):
            size = 4 * b["elements"]
        guard = max(align, 128) if options.get("tail_guard") and kind != "none" and size else 0
        names[i] = ("group", b["group"]) if b.get("group") else i
        own = max(align, b.get("align", 0) or 1)
        if slot["arena"] < 0:
            want(slot == {"arena": -1, "offset": 0, "size": 0}, f"buffer {b['id']} has no memory, and an offset or a size")
            want(unplanned(b, size + guard, own, segment, options), f"buffer {b['id']} has no memory and no reason why")
            continue
        want(slot["arena"] < len(arenas), f"buffer {b['id']} is in arena {slot['arena']} of {len(arenas)}")
        arena = arenas[slot["arena"]]
        want(arena.get("device", 0) == device, f"buffer {b['id']} is on device {device} in an arena of another")
        want(slot["size"] == size, f"buffer {b['id']} has {slot['size']} bytes, it needs {size}")
        want(slot["offset"] % own == 0 or not size, f"buffer {b['id']} lies at {slot['offset']}, no multiple of {own}")
        if arena.get("weights"):
            want(kind == "param" and not options.get("allocate_params"), f"buffer {b['id']} is no shared weight")
            want(0 <= slot["offset"] and slot["offset"] + size <= arena["size"], f"buffer {b['id']} leaves its arena")
            key = (slot["arena"], b.get("content") or ("buffer", i), slot["offset"], size)
            weights[key] = (slot["arena"], slot["offset"], slot["offset"] + size)
            continue
        want(not unplanned(b, size + guard, own, segment, options), f"buffer {b['id']} has memory, which the options do not allow")
        size += guard
        want(0 <= slot["offset"] and slot["offset"] + size <= arena["size"], f"buffer {b['id']} leaves its arena")
        low = arena.get("start", 0) + slot["offset"]
        if b.get("fixed") and size:
            want(low == b.get("offset", 0), f"buffer {b['id']} is fixed at {b.get('offset', 0)} and lies at {low}")
        blocks = devices.setdefault(device, {})
        if names[i] not in blocks:
            blocks[names[i]] = (b["first"], b["last"], low, size, own, b.get("fixed", False), guard, b.get("gaps") or [])
            continue
        first, last, at, bytes_, common, fixed, _, _ = blocks[names[i]]
        want(at == low, f"buffer {b['id']} lies apart from its group")
        blocks[names[i]] = (min(first, b["first"]), max(last, b["last"]), low, max(bytes_, size), max(common, own),
                            fixed or b.get("fixed", False), guard, [])
    runs = sorted(weights.values())
    want(all(a[0] != b[0] or a[2] <= b[1] for a, b in zip(runs, runs[1:])), "two weights with different bytes overlap")
    for device in devices.values():
        for name in [name for name, block in device.items() if not block[3]]:
            del device[name]  # without bytes
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
            want(low >= other[2] or other[1] >= high, f"bytes {low} to {high} and {other[1]} to {other[2]} overlap at step {first}")
        live.append((last, low, high))


def proved(bound, device, names, align, segment):
    """The bytes that a bound proves of a device."""
    lows = [gap["low"] for *_, gaps in device.values() for gap in gaps if gap.get("low")]
    grain = min([block[4] for block in device.values()] + [low & -low for low in lows])
    if segment:
        grain = min(grain, align)  # the highest buffer of each segment needs no padding
    members = [names[i] for i in bound["buffers"]]
    want(len(set(members)) == len(members), "a buffer counts twice")
    want(all(m in device for m in members), "a buffer is not on the device")
    padding = max(up(device[m][3], grain) - up(device[m][3], min(grain, align)) for m in members)  # one of them is highest
    total = 0
    for block in (device[m] for m in members):
        if bound.get("end"):
            want(block[5] and len(members) == 1, "only a fixed buffer ends the memory")
            total += (block[2] % segment if segment else block[2]) + up(block[3], grain)
            continue
        now = [use for use in uses(block) if use[0] <= bound["step"] < use[1]]
        want(now, f"a buffer does not live at step {bound['step']}")
        total += up(now[0][3] - now[0][2], grain)
    return up(total - padding, align)


def views(problem):
    """Fails for a view that is not within its buffer, or lives when neither the buffer nor its group does."""
    buffers, lives = problem["buffers"], {}
    for b in buffers:
        if b.get("group"):
            lives.setdefault(b["group"], []).append((b["first"], b["last"]))
    for v in problem.get("views") or []:
        want(0 <= v["buffer"] < len(buffers), f"view {v['name']} is in no buffer")
        b, low = buffers[v["buffer"]], v.get("offset", 0)
        high, pieces = low, 1
        for stride in v.get("strides") or []:
            want(stride["count"] >= 1, f"view {v['name']} has a stride of count {stride['count']}")
            reach = (stride["count"] - 1) * stride["step"]
            low, high, pieces = low + min(0, reach), high + max(0, reach), pieces * stride["count"]
        want(v["size"] >= 0 and v["size"] % pieces == 0, f"view {v['name']} has {v['size']} bytes in {pieces} pieces")
        piece = v["size"] // pieces
        want(0 <= v.get("offset", 0) <= b["size"], f"view {v['name']} begins outside buffer {b['id']}")
        want(not piece or 0 <= low and high + piece <= b["size"], f"view {v['name']} takes bytes {low} to {high + piece} of buffer {b['id']}")
        life = lives.get(b.get("group") or 0, [(b["first"], b["last"])])
        first, last = min(at for at, _ in life), max(at for _, at in life)
        if v.get("last", 0):
            want(first <= v.get("first", 0) <= v["last"] <= last, f"view {v['name']} lives when buffer {b['id']} does not")


def verify(stage):
    problem, plan = stage["problem"], stage["plan"]
    want(plan["options"]["mode"] != "arena", "the rules of mode arena are not checked here: use rlxc plan --check")
    align = plan["options"].get("alignment", 0) or 1
    views(problem)
    arenas(problem, plan)
    devices, names = blocks(problem, plan)
    for device in devices.values():
        disjoint(device)
    committed = sum(a["size"] for a in plan["arenas"] if not a.get("weights"))
    want(committed == plan["committed"], f"the arenas have {committed} bytes, not {plan['committed']}")
    bounds = stage.get("bounds") or []
    want(len({bound.get("device", 0) for bound in bounds}) == len(bounds), "a device has two bounds")
    for bound in bounds:
        device = devices.get(bound.get("device", 0), {})
        found = proved(bound, device, names, align, segment_of(problem, plan["options"])) if bound["buffers"] else 0
        want(found == bound["bytes"], f"the bound proves {found} bytes, not {bound['bytes']}")
    total = sum(bound["bytes"] for bound in bounds)
    want(total == plan["lower_bound"] <= committed, f"the bounds prove {total} bytes, not {plan['lower_bound']}")
    if stage.get("memories"):
        two_memories(stage["memories"], problem, plan)
    print(f"ok: {committed} bytes, and no plan has less than {total}")


def uses_of(b):
    """The steps that use a whole buffer, ascending, and those of them that write it again."""
    reads, writes = b.get("reads") or [], b.get("writes") or []
    for steps in (reads, writes):
        want(all(b["first"] < step < b["last"] - 1 for step in steps), f"buffer {b['id']} has a use outside of its life")
        want(all(one < other for one, other in zip(steps, steps[1:])), f"the uses of buffer {b['id']} do not ascend")
    return sorted({b["first"], b["last"] - 1, *reads, *writes}), set(writes), 2 + len(reads) + len(writes)


def lived(b, size, stretches):
    """The bytes that a buffer moves in its stretches, which are pairs of a device and a buffer."""
    steps, writes, moves = uses_of(b)
    fast = sorted(((s["first"], s["last"]) for device, s in stretches if device == 0))
    slow = [(s["first"], s["last"]) for device, s in stretches if device]
    if not fast:
        want(slow == [(b["first"], b["last"])], f"buffer {b['id']} lives in neither memory")
        return size * moves
    want(fast[0][0] == b["first"] and fast[-1][1] == b["last"], f"the stretches of buffer {b['id']} do not begin and end with it")
    moved = 0
    for n, (before, after) in enumerate(zip(fast, fast[1:])):
        want(before[1] <= after[0] and before[1] - 1 in steps and after[0] in steps, f"buffer {b['id']} is away, but not between uses")
        want(not any(before[1] <= step < after[0] for step in steps), f"buffer {b['id']} is away at a use")
        moved += size + size * (n == 0 or any(before[0] <= step < before[1] for step in writes))
    copies = [(fast[0][1], fast[-1][0] + 1)] if len(fast) > 1 else []
    want(slow == copies, f"the copy of buffer {b['id']} in the slow memory lives otherwise")
    return moved


def least(buyer, cases, prices):
    """What a buffer pays at least, at the prices of a proof, which are pairs of a step and a price."""
    size, extent, (steps, writes, moves) = buyer
    at, below, unit, never = [step for step, _ in prices], [0], 1 << 16, float("inf")
    for _, price in prices:
        below.append(below[-1] + price)

    def occupies(first, last):
        return extent * (below[bisect.bisect_left(at, last)] - below[bisect.bisect_left(at, first)])

    if cases.get(0):
        return size * moves * unit
    changed, copied = occupies(steps[0], steps[0] + 1), never  # without a copy in the slow memory, and with one
    for k in range(1, len(steps)):
        left = min(changed + 2 * size * unit, copied + size * unit) if cases.get(k) is not False else never
        between = occupies(steps[k - 1] + 1, steps[k]) if not cases.get(k) else never
        changed, copied = changed + between, min(copied + between, left)
        if steps[k] in writes:
            changed, copied = min(changed, copied), never
        now = occupies(steps[k], steps[k] + 1)
        changed, copied = changed + now, copied + now
    return min(changed, copied, size * moves * unit if 0 not in cases else never)


def prices_prove(proof, bound, buyers, room, limit, cases):
    """Fails if the prices of a proof prove less than a bound, in one of its cases."""
    want(("yes" in proof) == ("no" in proof), "a proof has one case of two")
    if "yes" in proof:
        buffer, gap = proof.get("buffer", 0), proof.get("gap", 0)
        want(buffer in buyers and 0 <= gap < len(buyers[buffer][2][0]), "a proof has cases of what does not exist")
        want(gap not in cases.get(buffer, {}), "a proof has the same cases twice")
        for answer in ("yes", "no"):
            decided = {**cases, buffer: {**cases.get(buffer, {}), gap: answer == "yes"}}
            prices_prove(proof[answer], bound, buyers, room, limit, decided)
        return
    prices = proof.get("steps") or []
    want(all(a[0] < b[0] for a, b in zip(prices, prices[1:])), "the prices of a proof do not ascend by step")
    total = sum(price for _, price in prices)
    want(all(price >= 0 for _, price in prices) and total <= limit, "a price is negative or too high")
    pays = sum(least(buyer, cases.get(n, {}), prices) for n, buyer in buyers.items()) - room * total
    want(pays > (bound - 1) << 16, f"the prices prove {pays}/65536 bytes, not {bound}")


def two_memories(two, problem, plan):
    """Fails if a plan for two memories does not serve the whole buffers, or moves other bytes than it claims, or its bound is not proved."""
    whole, options, most = two["problem"]["buffers"], plan["options"], (2**63 - 1) // 4
    align = options.get("alignment", 0) or 1
    views(two["problem"])
    want(not options.get("segment") and not options.get("capacity"), "two memories allow neither segments nor a capacity")
    want(len({b["id"] for b in whole}) == len(whole), "two whole buffers have one id")
    want(len(two["of"]) == len(problem["buffers"]), "not all buffers are stretches")
    stretches = [[] for _ in whole]
    for n, b in zip(two["of"], problem["buffers"]):
        want(0 <= n < len(whole), "a buffer is a stretch of none")
        same = all((b.get(key) or 0) == (whole[n].get(key) or 0) for key in ("size", "elements", "align"))
        same = same and b.get("boundary", "none") == whole[n].get("boundary", "none") and not b.get("group") and not b.get("gaps")
        device = b.get("lane", {}).get("device", 0)
        want(same and device in (0, 1), f"buffer {b['id']} is another than what it is a stretch of")
        stretches[n].append((device, b))
    moved, limit, buyers = 0, 0, {}
    for n, b in enumerate(whole):
        plain = not b.get("group") and not b.get("gaps") and not b.get("fixed") and not b.get("lane", {}).get("device", 0)
        want(plain and b["first"] < b["last"] and b["size"] >= 0, f"buffer {b['id']} cannot move between memories")
        limit += max(b["size"], 4 * b.get("elements", 0)) * uses_of(b)[2]
        size = 4 * b["elements"] if options.get("uniform_element_size") and b.get("elements") else b["size"]
        bytes_ = lived(b, size, stretches[n])
        guard = max(align, 128) if options.get("tail_guard") and b.get("boundary", "none") != "none" and size else 0
        if unplanned(b, size + guard, align, 0, options):
            want(len(stretches[n]) == 1 and stretches[n][0][0] == 0, f"buffer {b['id']} has no memory and several stretches")
            continue
        moved += bytes_
        buyers[n] = (size, up(size + guard, align), uses_of(b))
    want(limit <= most >> 16, "the uses move too many bytes")
    want(moved == two["moved"], f"the plan moves {moved} bytes, and claims {two['moved']}")
    want(0 <= two["bound"] <= moved, "the bound is above what the plan moves")
    taken = sum(a["size"] for a in plan["arenas"] if not a.get("weights") and not a.get("device", 0))
    want(taken <= two["fast"], f"the plan takes {taken} bytes of a fast memory of {two['fast']}")
    extents = sum(extent for _, extent, _ in buyers.values())
    room = min(two["fast"] - two["fast"] % align, extents)
    prices_prove(two["proof"], two["bound"], buyers, room, most // max(1, extents), {})


def arenas(problem, plan):
    """Fails for arenas that cannot be."""
    options = plan["options"]
    align, free, segment = options.get("alignment", 0) or 1, {}, segment_of(problem, options)
    for a in plan["arenas"]:
        start, device = a.get("start", 0), a.get("device", 0)
        want(a["size"] >= 0 and start >= 0, "an arena is negative")
        if not a.get("weights"):
            want(a["size"] % align == 0, f"an arena has {a['size']} bytes, no multiple of {align}")
            want(not options.get("segment") or a["size"] <= options["segment"], "an arena is above the segment limit")
            end = free.get(device, 0)
            want(start % segment == 0 and start >= end if segment else start == end, "an arena does not follow the one before it")
            free[device] = start + max(a["size"], segment)


def check(file):
    """Reports whether a file holds right plans alone, and prints why not."""
    try:
        report = json.load(file)
        stages = [stage for stage in [report, *(report.get("stages") or [])] if stage.get("plan")]
        want(stages, "the file has no plan")
        for stage in stages:
            verify(stage)
        return True
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        print(f"wrong: {type(error).__name__}: {error}")
        return False


files = [open(path) for path in sys.argv[1:]] or [sys.stdin]
sys.exit(not all([check(file) for file in files]))
