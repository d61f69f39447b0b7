// Package dynlib opens shared libraries without cgo, and finds and calls their functions. With build tag static it opens none, and the
// program needs no loader.
package dynlib

import (
	"fmt"
	"reflect"
	"slices"
	"unsafe"
)

// Link sets the fields of a struct of addresses to those of the functions with the fields' names after a prefix. It fails if one is
// missing that is not optional.
func Link(to any, prefix string, find func(name string) (uintptr, error), optional ...string) error {
	v := reflect.ValueOf(to).Elem()
	for i := range v.NumField() {
		name := prefix + v.Type().Field(i).Name
		address, err := find(name)
		if err != nil && !slices.Contains(optional, name) {
			return fmt.Errorf("%s is missing", name)
		}
		v.Field(i).SetUint(uint64(address))
	}
	return nil
}

// Text reads a C string, which ends with a zero byte; it is "" for null.
func Text(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
