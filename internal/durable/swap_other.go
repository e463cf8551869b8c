//go:build !linux

package durable

import "errors"

// swap exchanges two folders in one step, which this system has no call for.
var swap = func(fresh, old, path string) error { return errors.ErrUnsupported }
