package podspace

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

// CgroupRoot is the mount point of the kernel's file system of cgroups, used by sigma-gate.
const CgroupRoot = "/sys/fs/cgroup"

// period of the CFS bandwidth controller in microseconds, Kubernetes' own.
const period = 100_000

// Controllers that a function needs, by version. In version 1 each is a hierarchy of its own.
var Controllers = map[bool][]string{true: {"cpu", "memory"}, false: {"cpu", "cpuacct", "memory"}}

// Unified reports whether a file system of cgroups is of version 2.
func Unified(root string) bool {
	_, err := os.Stat(filepath.Join(root, "cgroup.controllers"))
	return err == nil
}

// CgroupVersion names the version of a file system of cgroups.
func CgroupVersion(root string) string {
	if Unified(root) {
		return "cgroup v2"
	}
	return "cgroup v1"
}

// missingCgroups returns the controllers that a root lacks for functions.
func missingCgroups(root string) (missing []string) {
	v2 := Unified(root)
	enabled, _ := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	for _, c := range Controllers[v2] {
		_, err := os.Stat(filepath.Join(root, c, "cgroup.procs"))
		if v2 && !slices.Contains(strings.Fields(string(enabled)), c) || !v2 && err != nil {
			missing = append(missing, "the cgroup controller "+c)
		}
	}
	return missing
}

// A Cgroup holds a function's processes.
type Cgroup struct {
	root, name string
	v2         bool
}

// NamedCgroup is one by its name below a root; it need not be there.
func NamedCgroup(root, name string) *Cgroup {
	return &Cgroup{root: root, name: name, v2: Unified(root)}
}

// NewCgroup makes one with a quota in cores and a limit in bytes.
func NewCgroup(root, name string, quota float64, limit int64) (*Cgroup, error) {
	g := NamedCgroup(root, name)
	for _, dir := range g.Dirs() {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, errors.Join(err, g.Remove())
		}
	}
	files := map[string]string{"memory/memory.limit_in_bytes": strconv.FormatInt(limit, 10), "cpu/cpu.shares": MostShares}
	if g.v2 {
		files = map[string]string{"memory.max": strconv.FormatInt(limit, 10), "memory.swap.max": "0", "cpu.weight": MostWeight}
	}
	for file, text := range files {
		err := g.write(file, text)
		if file == "memory.swap.max" && errors.Is(err, os.ErrNotExist) {
			continue // a kernel without swap
		}
		if err != nil {
			return nil, errors.Join(err, g.Remove())
		}
	}
	if err := g.SetQuota(quota); err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

// The most shares and weight that the kernel takes: the measured processes have precedence
// over everything else on the machine.
const (
	MostShares = "262144"
	MostWeight = "10000"
)

// Dirs are the group's folders, a function's memory first.
func (g *Cgroup) Dirs() (list []string) {
	if g.v2 {
		return []string{filepath.Join(g.root, g.name)}
	}
	for _, c := range Controllers[false] {
		list = append(list, filepath.Join(g.root, c, g.name))
	}
	return list
}

// path of a file of the group: CONTROLLER/FILE in version 1, FILE in version 2.
func (g *Cgroup) path(file string) string {
	if g.v2 {
		return filepath.Join(g.root, g.name, file)
	}
	controller, file, _ := strings.Cut(file, "/")
	return filepath.Join(g.root, controller, g.name, file)
}

func (g *Cgroup) write(file, text string) error {
	return os.WriteFile(g.path(file), []byte(text), 0o644)
}

// SetQuota in cores; 0 = no quota.
func (g *Cgroup) SetQuota(quota float64) error {
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

// Add moves a process into the group.
func (g *Cgroup) Add(pid int) error {
	for _, dir := range g.Dirs() {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Kills returns how many processes the kernel has killed for want of memory.
func (g *Cgroup) Kills() (int, error) {
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

// Remove fails while a process is in the group, which the kernel notices late.
func (g *Cgroup) Remove() (err error) {
	for range 100 {
		err = nil
		for _, dir := range g.Dirs() {
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

// SweepCgroups removes the groups of killed processes: groups whose name begins with prefix and has, as its first number,
// that of a process that does not exist.
func SweepCgroups(root, prefix string) error {
	for _, dir := range NamedCgroup(root, "").Dirs() {
		groups, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
		if err != nil {
			return err
		}
		for _, group := range groups {
			pid := strings.TrimLeft(strings.TrimPrefix(filepath.Base(group), prefix), "abcdefghijklmnopqrstuvwxyz-")
			pid, _, _ = strings.Cut(pid, "-")
			if _, err := os.Stat(filepath.Join("/proc", pid)); !errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err := os.Remove(group); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, os.ErrNotExist) { // its function is about to end, or others sweep
				return err
			}
		}
	}
	return nil
}
