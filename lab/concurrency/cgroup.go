package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sigma-scheduler/sigma/lab/podspace"
)

// ahead puts this process, and so the gates that it starts, into a group of most shares,
// until it is called back.
func ahead(root string) (back func() error, err error) {
	if err := podspace.SweepCgroups(root, "sigma-concurrency-"); err != nil {
		return nil, err
	}
	parent, file, text := filepath.Join(root, "cpu"), "cpu.shares", podspace.MostShares
	if podspace.Unified(root) {
		parent, file, text = root, "cpu.weight", podspace.MostWeight
	}
	dir, self := filepath.Join(parent, fmt.Sprintf("sigma-concurrency-clients-%d", os.Getpid())), []byte(strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	back = func() error {
		return errors.Join(os.WriteFile(filepath.Join(parent, "cgroup.procs"), self, 0o644), os.Remove(dir))
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644), os.WriteFile(filepath.Join(dir, "cgroup.procs"), self, 0o644))
	if err != nil {
		return nil, errors.Join(err, back())
	}
	return back, nil
}
