package podspace

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Version 2 has one folder and other files.
func TestCgroupVersions(t *testing.T) {
	for _, x := range []struct {
		name    string
		before  map[string]string
		missing []string
		after   map[string]string
		kills   string
	}{
		{
			"v2",
			map[string]string{"cgroup.controllers": "cpu memory", "cgroup.subtree_control": "cpu memory pids"},
			nil,
			map[string]string{"f/cpu.max": "25000 100000", "f/memory.max": "1000", "f/cpu.weight": "10000", "f/cgroup.procs": "7"},
			"f/memory.events",
		},
		{
			"v1",
			map[string]string{"cpu/cgroup.procs": "", "cpuacct/cgroup.procs": "", "memory/cgroup.procs": ""},
			nil,
			map[string]string{
				"cpu/f/cpu.cfs_quota_us": "25000", "cpu/f/cpu.cfs_period_us": "100000", "memory/f/memory.limit_in_bytes": "1000", "cpu/f/cpu.shares": "262144",
				"memory/f/cgroup.procs": "7", "cpu/f/cgroup.procs": "7", "cpuacct/f/cgroup.procs": "7",
			},
			"memory/f/memory.oom_control",
		},
		{"v2 without memory", map[string]string{"cgroup.controllers": "cpu memory", "cgroup.subtree_control": "cpu"}, []string{"the cgroup controller memory"}, nil, ""},
		{"nothing", nil, []string{"the cgroup controller cpu", "the cgroup controller cpuacct", "the cgroup controller memory"}, nil, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			root := t.TempDir()
			put := func(file, text string) {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o644))
			}
			for file, text := range x.before {
				put(file, text)
			}
			assert.Equal(t, x.missing, missingCgroups(root))
			if x.after == nil {
				return
			}
			g, err := NewCgroup(root, "f", .25, 1000)
			require.NoError(t, err)
			require.NoError(t, g.Add(7))
			for file, want := range x.after {
				text, err := os.ReadFile(filepath.Join(root, file))
				require.NoError(t, err)
				assert.Equal(t, want, string(text), file)
			}
			put(x.kills, "low 0\noom_kill 3\n")
			kills, err := g.Kills()
			require.NoError(t, err)
			assert.Equal(t, 3, kills)
			put(x.kills, "low 0\n")
			_, err = g.Kills()
			require.ErrorContains(t, err, "no oom_kill")
			require.NoError(t, g.SetQuota(0))
		})
	}
}

// What killed processes have left is removed, and nothing else.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	self := fmt.Sprint(os.Getpid())
	const gone = "999999999" // more than the kernel gives
	for _, c := range Controllers[false] {
		for _, name := range []string{"sigma-concurrency-" + gone + "-3", "sigma-concurrency-clients-" + gone, "sigma-concurrency-" + self + "-3", "other-" + gone} {
			require.NoError(t, os.MkdirAll(filepath.Join(root, c, name), 0o755))
		}
	}
	require.NoError(t, SweepCgroups(root, "sigma-concurrency-"))
	for _, c := range Controllers[false] {
		left, err := filepath.Glob(filepath.Join(root, c, "*"))
		require.NoError(t, err)
		assert.Len(t, left, 2, "%v", left)
	}
}
