//go:build static

package dynlib

import "errors"

// errStatic is why nothing else of this file is reached: a static program has no loader.
var errStatic = errors.New("this program is static (build tag static) and opens no libraries")

// Open fails.
func Open(string) (uintptr, error) { return 0, errStatic }

// Symbol fails.
func Symbol(uintptr, string) (uintptr, error) { return 0, errStatic }

// Call has no library to call.
func Call(uintptr, ...uintptr) uintptr { panic(errStatic) }

// Callback has no library to be called by.
func Callback(any) uintptr { panic(errStatic) }

// Func has no library to call.
func Func(any, uintptr) { panic(errStatic) }
