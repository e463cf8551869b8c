package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupRoot is where the kernel's file system of cgroups is, and where sigma-gate looks.
const cgroupRoot = "/sys/fs/cgroup"

// period of the CFS bandwidth controller in microseconds, Kubernetes' own.
const period = 100_000

// controllers that a function needs, by version. In version 1 each is a hierarchy of its own.
var controllers = map[bool][]string{true: {"cpu", "memory"}, false: {"cpu", "cpuacct", "memory"}}

// unified reports whether a file system of cgroups is of version 2.
func unified(root string) bool {
	_, err := os.Stat(filepath.Join(root, "cgroup.controllers"))
	return err == nil
}

// missingCgroups returns what a root lacks for functions.
func missingCgroups(root string) (missing []string) {
	v2 := unified(root)
	enabled, _ := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	for _, c := range controllers[v2] {
		_, err := os.Stat(filepath.Join(root, c, "cgroup.procs"))
		if v2 && !slices.Contains(strings.Fields(string(enabled)), c) || !v2 && err != nil {
			missing = append(missing, "the cgroup controller "+c)
		}
	}
	return missing
}

// A cgroup holds a function's processes.
type cgroup struct {
	root, name string
	v2         bool
}

// newCgroup makes one with a quota in cores and a limit in bytes.
func newCgroup(root, name string, quota float64, limit int64) (*cgroup, error) {
	g := &cgroup{root: root, name: name, v2: unified(root)}
	for _, dir := range g.dirs() {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, errors.Join(err, g.remove())
		}
	}
	files := map[string]string{"memory/memory.limit_in_bytes": strconv.FormatInt(limit, 10), "cpu/cpu.shares": mostShares}
	if g.v2 {
		files = map[string]string{"memory.max": strconv.FormatInt(limit, 10), "memory.swap.max": "0", "cpu.weight": mostWeight}
	}
	for file, text := range files {
		err := g.write(file, text)
		if file == "memory.swap.max" && errors.Is(err, os.ErrNotExist) {
			continue // a kernel without swap
		}
		if err != nil {
			return nil, errors.Join(err, g.remove())
		}
	}
	if err := g.setQuota(quota); err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// The most shares and weight that the kernel takes: what is measured comes before everything
// else on the machine.
const (
	mostShares = "262144"
	mostWeight = "10000"
)

// ahead puts this process, and so the gates that it starts, into a group of most shares,
// until it is called back.
func ahead(root string) (back func() error, err error) {
	if err := sweep(root); err != nil {
		return nil, err
	}
	parent, file, text := filepath.Join(root, "cpu"), "cpu.shares", mostShares
	if unified(root) {
		parent, file, text = root, "cpu.weight", mostWeight
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
	if !unified(root) {
		dirs = nil
		for _, c := range controllers[false] {
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

// dirs are the group's folders, a function's memory first.
func (g *cgroup) dirs() (list []string) {
	if g.v2 {
		return []string{filepath.Join(g.root, g.name)}
	}
	for _, c := range controllers[false] {
		list = append(list, filepath.Join(g.root, c, g.name))
	}
	return list
}

// path of a file of the group: CONTROLLER/FILE in version 1, FILE in version 2.
func (g *cgroup) path(file string) string {
	if g.v2 {
		return filepath.Join(g.root, g.name, file)
	}
	controller, file, _ := strings.Cut(file, "/")
	return filepath.Join(g.root, controller, g.name, file)
}

func (g *cgroup) write(file, text string) error {
	return os.WriteFile(g.path(file), []byte(text), 0o644)
}

// setQuota in cores; 0 = none.
func (g *cgroup) setQuota(quota float64) error {
	share := strconv.Itoa(int(quota * period))
	if g.v2 {
		if quota == 0 {
			share = "max"
		}
		return g.write("cpu.max", share+" "+strconv.Itoa(period))
	}
	if quota == 0 {
		share = "-1"
	}
	return errors.Join(g.write("cpu/cpu.cfs_period_us", strconv.Itoa(period)), g.write("cpu/cpu.cfs_quota_us", share))
}

func (g *cgroup) add(pid int) error {
	for _, dir := range g.dirs() {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// kills returns how many processes the kernel has killed for want of memory.
func (g *cgroup) kills() (int, error) {
	file := "memory/memory.oom_control"
	if g.v2 {
		file = "memory.events"
	}
	text, err := os.ReadFile(g.path(file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && key == "oom_kill" {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("%s: no oom_kill", g.path(file))
}

// version for the page.
func (g *cgroup) version() string {
	if g.v2 {
		return "cgroup v2"
	}
	return "cgroup v1"
}

// remove fails while a process is in the group, which the kernel notices late.
func (g *cgroup) remove() (err error) {
	for range 100 {
		err = nil
		for _, dir := range g.dirs() {
			if e := os.Remove(dir); e != nil && !errors.Is(e, os.ErrNotExist) {
				err = e
			}
		}
		if err == nil {
			return nil
		}
		<-time.NewTimer(10 * time.Millisecond).C
	}
	return err
}
