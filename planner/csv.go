package planner

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ReadCSV reads a problem from comma-separated values with a header: id, lower, upper, size and optionally alignment, offset, gaps, reads,
// writes, boundary, group and lane, in any order. A buffer lives over the half-open interval [lower, upper) and needs size bytes. A buffer
// with an offset is fixed there. The lane is `compute` or `copy`, after the number of the device if there are several: `copy`, `1`, `1
// copy`. Gaps are separated by spaces: `5-8` frees the buffer over [5, 8), and `5-8@0:64` frees all of it but the bytes [0, 64). Reads and
// writes are steps, separated by spaces. Lines that start with # are comments.
//
// These are minimalloc's columns. Its other names are accepted too: start or begin for lower; end for the last step, which is one less
// than upper, also in gaps; buffer or buffer_id for id. Its hint is ignored.
//
// Ids are any text and become the names. Buffers are numbered in the order of their ids, so a plan does not depend on the order of the
// rows. ReadCSV fails with the error of r, or with an error that names the invalid row.
func ReadCSV(r io.Reader) (*Problem, error) {
	rows := csv.NewReader(r)
	rows.Comment = '#'
	rows.TrimLeadingSpace = true
	header, err := rows.Read()
	if err == io.EOF {
		return nil, errors.New("no header: the first row must be id,lower,upper,size")
	}
	if err != nil {
		return nil, err
	}
	columns, after, err := csvColumns(header)
	if err != nil {
		return nil, err
	}
	p := &Problem{}
	var total int64
	seen := map[string]int{}
	for {
		row, err := rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := rows.FieldPos(0)
		b := Buffer{}
		for c, set := range columns {
			if err := set(&b, strings.TrimSpace(row[c])); err != nil {
				return nil, fmt.Errorf("line %d: %s: %w", line, header[c], err)
			}
		}
		b.Last += after
		for i := range b.Gaps {
			b.Gaps[i].Last += after
		}
		if first, twice := seen[b.Name]; twice {
			return nil, fmt.Errorf("line %d: id %q is already on line %d", line, b.Name, first)
		}
		seen[b.Name] = line
		if err := b.validate(); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if total += b.Size; total > maxBytes {
			return nil, fmt.Errorf("line %d: the sizes up to here sum to more than %d bytes", line, int64(maxBytes))
		}
		p.Buffers = append(p.Buffers, b)
	}
	slices.SortFunc(p.Buffers, func(a, b Buffer) int { return compareIDs(a.Name, b.Name) })
	for i := range p.Buffers {
		p.Buffers[i].ID = i
	}
	return p, p.Validate()
}

// WriteCSV writes a problem with the offset of each buffer, as ReadCSV reads it. Offsets count from the start of a device's memory. A
// buffer without memory has none. It fails with the error of w.
func (plan *Plan) WriteCSV(w io.Writer, p *Problem) error {
	out := csv.NewWriter(w)
	out.Write([]string{"id", "lower", "upper", "size", "alignment", "gaps", "boundary", "group", "lane", "offset"})
	seen := map[string]bool{}
	for i := range p.Buffers {
		b, slot := &p.Buffers[i], plan.Slots[i]
		name := b.label()
		for seen[name] {
			name += fmt.Sprintf("#%d", b.ID)
		}
		seen[name] = true
		var gaps []string
		for _, g := range b.Gaps {
			text := fmt.Sprintf("%d-%d", g.First, g.Last)
			if g.High > 0 {
				text += fmt.Sprintf("@%d:%d", g.Low, g.High)
			}
			gaps = append(gaps, text)
		}
		lane := strconv.Itoa(b.Lane.Device)
		if b.Lane.Copy {
			lane += " copy"
		}
		offset := ""
		if slot.Arena != NoArena {
			offset = strconv.FormatInt(plan.Arenas[slot.Arena].Start+slot.Offset, 10)
		}
		out.Write([]string{name, strconv.Itoa(b.First), strconv.Itoa(b.Last), strconv.FormatInt(b.Size, 10),
			strconv.FormatInt(max(1, b.Align), 10), strings.Join(gaps, " "), b.Boundary.String(), strconv.Itoa(b.Group), lane, offset})
	}
	out.Flush()
	return out.Error()
}

// csvFields says how each column is read.
var csvFields = map[string]func(b *Buffer, text string) error{
	"id":        func(b *Buffer, text string) error { b.Name = text; return nil },
	"lower":     func(b *Buffer, text string) error { return parseStep(text, &b.First) },
	"upper":     func(b *Buffer, text string) error { return parseStep(text, &b.Last) },
	"size":      func(b *Buffer, text string) error { return parseBytes(text, &b.Size) },
	"alignment": func(b *Buffer, text string) error { return parseBytes(text, &b.Align) },
	"hint":      func(*Buffer, string) error { return nil },
	"gaps": func(b *Buffer, text string) error {
		for field := range strings.FieldsSeq(text) {
			g, err := parseGap(field)
			if err != nil {
				return err
			}
			b.Gaps = append(b.Gaps, g)
		}
		return nil
	},
	"reads":  func(b *Buffer, text string) error { return parseSteps(text, &b.Reads) },
	"writes": func(b *Buffer, text string) error { return parseSteps(text, &b.Writes) },
	"offset": func(b *Buffer, text string) error {
		if text == "" {
			return nil
		}
		b.Fixed = true
		return parseBytes(text, &b.Offset)
	},
	"boundary": func(b *Buffer, text string) error { return b.Boundary.UnmarshalText([]byte(text)) },
	"group":    func(b *Buffer, text string) error { return parseStep(text, &b.Group) },
	"lane": func(b *Buffer, text string) error {
		device, isCopy := strings.CutSuffix(text, "copy")
		if !isCopy {
			device = strings.TrimSuffix(text, "compute")
		}
		b.Lane.Copy = isCopy
		if device = strings.TrimSpace(device); device == "" {
			return nil
		}
		var err error
		if b.Lane.Device, err = strconv.Atoi(device); err != nil {
			return fmt.Errorf("unknown lane %q: use compute or copy, after the number of the device if there are several", text)
		}
		return nil
	},
}

// csvAliases are the other names of columns in minimalloc's files.
var csvAliases = map[string]string{"start": "lower", "begin": "lower", "end": "upper", "buffer": "id", "buffer_id": "id"}

// csvColumns returns the setter of each column of the header, and what is to be added to last steps.
func csvColumns(header []string) (columns []func(*Buffer, string) error, after int, err error) {
	missing := []string{"id", "lower", "upper", "size"}
	var seen []string
	for _, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "end" {
			after = 1
		}
		name = cmp.Or(csvAliases[name], name)
		set := csvFields[name]
		if set == nil {
			return nil, 0, fmt.Errorf("unknown column %q: "+
				"use id, lower, upper, size, alignment, offset, gaps, reads, writes, boundary, group, lane", name)
		}
		if slices.Contains(seen, name) {
			return nil, 0, fmt.Errorf("duplicate column %q", name)
		}
		seen, columns = append(seen, name), append(columns, set)
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
	}
	if len(missing) > 0 {
		return nil, 0, fmt.Errorf("the header lacks %s: it must have id, lower, upper, size", strings.Join(missing, ", "))
	}
	return columns, after, nil
}

// parseGap reads `first-last`, or `first-last@low:high`.
func parseGap(text string) (g Gap, err error) {
	life, window, windowed := strings.Cut(text, "@")
	first, last, ok := strings.Cut(life, "-")
	low, high, ok2 := strings.Cut(window, ":")
	if !ok || windowed && !ok2 {
		return g, fmt.Errorf("%q is not a gap: use 5-8, or 5-8@0:64 if bytes 0 to 64 stay in use", text)
	}
	if windowed {
		err = errors.Join(parseBytes(low, &g.Low), parseBytes(high, &g.High))
	}
	return g, errors.Join(err, parseStep(first, &g.First), parseStep(last, &g.Last))
}

func parseBytes(text string, n *int64) (err error) {
	*n, err = strconv.ParseInt(text, 10, 64)
	return numberError(text, err)
}

func parseStep(text string, n *int) (err error) {
	*n, err = strconv.Atoi(text)
	return numberError(text, err)
}

// parseSteps reads steps that are separated by spaces.
func parseSteps(text string, list *[]int) error {
	for field := range strings.FieldsSeq(text) {
		*list = append(*list, 0)
		if err := parseStep(field, &(*list)[len(*list)-1]); err != nil {
			return err
		}
	}
	return nil
}

func numberError(text string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s does not fit 63 bits", text)
	}
	return fmt.Errorf("%q is not a whole number", text)
}

// compareIDs orders numbers by value, before all other texts.
func compareIDs(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	switch {
	case errX == nil && errY == nil && x != y:
		return x - y
	case errX == nil && errY != nil:
		return -1
	case errX != nil && errY == nil:
		return 1
	}
	return strings.Compare(a, b)
}
