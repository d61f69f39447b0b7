//go:build nowgpu

package main

import "errors"

func adapters() ([]deviceRow, error) {
	return nil, errors.New("this binary was built without it (build tag nowgpu)")
}
