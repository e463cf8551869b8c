//go:build !linux

package simcheck

import (
	"errors"
	"io"
)

// Part fails: the server needs Linux.
func Part(Config, io.Writer) error {
	return errors.New("the comparison with a server needs Linux: its processor is limited by a cgroup")
}
