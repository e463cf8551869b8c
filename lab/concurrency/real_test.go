package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// declared is set where the machine is known to have what functions need: a test that skips
// then has failed.
const declared = "SIGMA_CGROUPS"

// TestMain is the function where it was started as one.
func TestMain(m *testing.M) {
	if role := os.Getenv(asBeside); role != "" {
		beside(role)
	}
	if os.Getenv(asFunction) != "" {
		if err := execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// gateProgram builds sigma-gate, or skips where functions cannot run.
func gateProgram(t *testing.T) string {
	t.Helper()
	if err := lacks(); err != nil {
		if os.Getenv(declared) != "" {
			t.Fatalf("%s is set, and %v", declared, err)
		}
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "sigma-gate")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/sigma-gate")
	build.Dir = "../.."
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	return program
}

// started starts a function that is stopped with the test.
func started(t *testing.T, gate, name string, limit int) *pod {
	t.Helper()
	list, err := named([]string{name})
	require.NoError(t, err)
	d, err := startPod(t.Context(), gate, list[0], limit)
	require.NoError(t, err)
	t.Cleanup(func() {
		dirs := d.group.Dirs()
		require.NoError(t, d.stop(nil))
		for _, dir := range dirs {
			assert.NoDirExists(t, dir)
		}
	})
	return d
}

// A real function behind the real gate: as many are inside as the limit says, the throughput
// is the simulator's, the quota holds, cpu and memory are those of the function's cgroup.
func TestRealFunction(t *testing.T) {
	gate := gateProgram(t)
	d := started(t, gate, "mixed", 1)
	d.load(clients)
	// What 50 ms and 4 ms give, with .5 ms for http: the machine may be busy.
	in := inputs{Demand: .0045, Floor: .0005}
	for _, n := range []int{1, 16} {
		require.NoError(t, d.change(t.Context(), n))
		w, err := d.window(t.Context(), 2*time.Second)
		require.NoError(t, err)
		require.NoError(t, w.Check())
		rate := w.Answered.Number / w.Length.Number
		simulated, kills, err := simulate(t.Context(), d.profile, in, n)
		require.NoError(t, err)
		t.Logf("limit %d: %.1f a second, simulated %.1f", n, rate, simulated)
		// Other processes may slow a function down as they like; nothing makes it faster than its quota.
		assert.Less(t, rate, 1.35*simulated)
		assert.Greater(t, rate, .1*simulated)
		assert.InEpsilon(t, float64(n), w.Inside.Number, .05)
		assert.Zero(t, kills)
		assert.Zero(t, w.Failed.Number)
		assert.Equal(t, cores, w.Quota.Number)
		assert.Equal(t, float64(memoryBytes), w.MemoryLimit.Number)
		assert.InDelta(t, .0045*rate, w.CPU.Number/w.Length.Number, .06)
		assert.Less(t, w.CPU.Number/w.Length.Number, cores*1.15, "the quota holds")
		assert.Greater(t, w.Memory.Number, 1e6)
	}
	counts := func() map[uint16]int { return d.loads[0].stop() }
	require.NoError(t, d.setLimit(t.Context(), 310)) // let the waiting ones in
	got := counts()
	assert.Greater(t, got[200], 20)
	assert.Equal(t, map[uint16]int{200: got[200]}, got, "Vegeta has heard nothing else")
	d.loads = nil
}

// A function that runs out of memory is killed, counted, and started again; below the
// guard's limit it is not.
func TestKilledForMemory(t *testing.T) {
	gate := gateProgram(t)
	d := started(t, gate, "mem", 8)
	d.load(clients)
	_, err := d.window(t.Context(), 2*time.Second)
	require.NoError(t, err)
	restarts, kills, err := d.ends()
	require.NoError(t, err)
	assert.Zero(t, restarts+kills, "8 of 8 MB fit into 256 MiB")
	require.NoError(t, d.setLimit(t.Context(), 310))
	for range 60 {
		if restarts, kills, err = d.ends(); err != nil || restarts > 0 {
			break
		}
		_, err = d.window(t.Context(), 200*time.Millisecond)
		require.NoError(t, err)
	}
	require.NoError(t, err)
	assert.Positive(t, restarts, "310 of 8 MB do not")
	assert.Positive(t, kills, "by the cgroup's count")
	require.NoError(t, d.setLimit(t.Context(), 2))
	answered := 0.0
	for range 60 {
		w, err := d.window(t.Context(), 250*time.Millisecond)
		require.NoError(t, err)
		if answered = w.Answered.Number; answered > 2 {
			break
		}
	}
	assert.Greater(t, answered, 2., "it runs again")
}
