package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/internal/podspace"
)

// ahead puts this process, and so the gates that it starts, into a group of most shares,
// until it is called back.
func ahead(root string) (back func() error, err error) {
	if err := sweep(root); err != nil {
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

// sweep removes what processes have left that were killed: groups with the number of a process that is not there.
func sweep(root string) error {
	dirs := []string{root}
	if !podspace.Unified(root) {
		dirs = nil
		for _, c := range podspace.Controllers[false] {
			dirs = append(dirs, filepath.Join(root, c))
		}
	}
	for _, dir := range dirs {
		groups, err := filepath.Glob(filepath.Join(dir, "sigma-concurrency-*"))
		if err != nil {
			return err
		}
		for _, group := range groups {
			pid := strings.TrimPrefix(strings.TrimPrefix(filepath.Base(group), "sigma-concurrency-"), "clients-")
			pid, _, _ = strings.Cut(pid, "-")
			if _, err := os.Stat(filepath.Join("/proc", pid)); !errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err := os.Remove(group); err != nil && !errors.Is(err, unix.EBUSY) { // its function is about to end
				return err
			}
		}
	}
	return nil
}
