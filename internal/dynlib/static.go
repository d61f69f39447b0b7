//go:build static

package dynlib

import "errors"

// errStatic is why nothing else of this file is reached: a static program has no loader.
var errStatic = errors.New("this program is static (build tag static) and opens no libraries")

// Open fails.
func Open(string) (uintptr, error) { return 0, errStatic }

// Symbol fails.
func Symbol(uintptr, string) (uintptr, error) { return 0, errStatic }

// Call panics: there is no library.
func Call(uintptr, ...uintptr) uintptr { panic(errStatic) }

// Callback panics: no library can call Go.
func Callback(any) uintptr { panic(errStatic) }

// Func panics: there is no library.
func Func(any, uintptr) { panic(errStatic) }
