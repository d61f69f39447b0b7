package planner

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ReadCSV reads a problem from comma separated values with a header row: id, lower, upper, size and, where wanted, alignment, offset,
// boundary, group and lane, in any order. A buffer with an offset is fixed there. A buffer lives over the half-open interval [lower, upper)
// and needs size bytes; its lane is `compute` or `copy`, after the number of the device where there are several: `copy`, `1`, `1 copy`.
// Lines that start with # are comments.
//
// Ids are any text and become the names. Buffers are numbered in the order of their ids, so that a plan does not depend on
// the order of the rows. It fails with the error of r, or with one that names the row that is wrong.
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
	columns, err := csvColumns(header)
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
		if first, twice := seen[b.Name]; twice {
			return nil, fmt.Errorf("line %d: id %q is on line %d already", line, b.Name, first)
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

// csvFields says how each column is read.
var csvFields = map[string]func(b *Buffer, text string) error{
	"id":        func(b *Buffer, text string) error { b.Name = text; return nil },
	"lower":     func(b *Buffer, text string) error { return parseStep(text, &b.First) },
	"upper":     func(b *Buffer, text string) error { return parseStep(text, &b.Last) },
	"size":      func(b *Buffer, text string) error { return parseBytes(text, &b.Size) },
	"alignment": func(b *Buffer, text string) error { return parseBytes(text, &b.Align) },
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
			return fmt.Errorf("there is no lane %q: use compute or copy, after the number of the device where there are several", text)
		}
		return nil
	},
}

// csvColumns returns the setter of each column of the header.
func csvColumns(header []string) ([]func(*Buffer, string) error, error) {
	columns := make([]func(*Buffer, string) error, len(header))
	missing := []string{"id", "lower", "upper", "size"}
	for c, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if columns[c] = csvFields[name]; columns[c] == nil {
			return nil, fmt.Errorf("unknown column %q: use id, lower, upper, size, alignment, offset, boundary, group, lane", name)
		}
		if slices.Index(header, header[c]) != c {
			return nil, fmt.Errorf("column %q is there twice", name)
		}
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the header lacks %s: it must have id, lower, upper, size", strings.Join(missing, ", "))
	}
	return columns, nil
}

func parseBytes(text string, n *int64) (err error) {
	*n, err = strconv.ParseInt(text, 10, 64)
	return numberError(text, err)
}

func parseStep(text string, n *int) (err error) {
	*n, err = strconv.Atoi(text)
	return numberError(text, err)
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
