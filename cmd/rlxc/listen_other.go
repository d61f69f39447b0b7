//go:build !linux

package main

import "errors"

func (l *listener) refuse() error { return errors.ErrUnsupported }
