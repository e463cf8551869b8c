package simcheck

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

const cgroups = "/sys/fs/cgroup"

// period of the CFS bandwidth controller in microseconds, Kubernetes' own.
const period = 100_000

// A cgroup limits the processor of a process as a container's is.
type cgroup struct {
	dir  string
	kind string // for the page
	set  func(cores float64) error
}

// newCgroup makes a cgroup below the root, of version 2 or else of version 1: the
// kernel's bandwidth controller is the same behind both.
func newCgroup(root, part string) (*cgroup, error) {
	name := fmt.Sprintf("sigma-lab-%s-%d", part, os.Getpid())
	g := &cgroup{dir: filepath.Join(root, name), kind: "cgroup v2, cpu.max"}
	write := func(file, text string) error {
		return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0o644)
	}
	if controllers, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control")); err == nil {
		if !hasWord(string(controllers), "cpu") {
			return nil, fmt.Errorf("%s: no cpu controller: %q", root, controllers)
		}
		g.set = func(cores float64) error {
			return errors.Join(write("cpu.max", quota(cores, "max")+" "+strconv.Itoa(period)), write("cpu.weight", "10000"))
		}
	} else {
		g.dir, g.kind = filepath.Join(root, "cpu", name), "cgroup v1, cpu.cfs_quota_us"
		g.set = func(cores float64) error {
			return errors.Join(write("cpu.cfs_period_us", strconv.Itoa(period)), write("cpu.cfs_quota_us", quota(cores, "-1")), write("cpu.shares", "262144"))
		}
	}
	return g, os.Mkdir(g.dir, 0o755)
}

func quota(cores float64, none string) string {
	if cores == 0 {
		return none
	}
	return strconv.Itoa(int(cores * period))
}

func (g *cgroup) add(pid int) error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
}

// remove fails while a process is in the group.
func (g *cgroup) remove() error { return os.Remove(g.dir) }

// leave returns to the root cgroup and removes that of the load.
func leave() {
	pid := strconv.Itoa(os.Getpid())
	for _, root := range []string{cgroups, filepath.Join(cgroups, "cpu")} {
		group := filepath.Join(root, "sigma-lab-load-"+pid)
		if _, err := os.Stat(group); err == nil {
			_ = os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte(pid), 0o644)
			_ = os.Remove(group)
		}
	}
}
