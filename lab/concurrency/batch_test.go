package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/podspace"
)

// asBeside is set in the processes of [TestBatchBesideAServer]: server or batch.
const asBeside = "SIGMA_BESIDE"

// beside runs such a process until it is killed.
func beside(role string) {
	work := func(n int) {
		block := make([]byte, 1<<10)
		for range n {
			sum := sha256.Sum256(block)
			copy(block, sum[:])
		}
	}
	if role == "batch" {
		for range runtime.NumCPU() {
			go func() {
				for {
					work(1000)
				}
			}()
		}
		select {}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // for as long as the process
	if err != nil {
		panic(err)
	}
	began := time.Now()
	work(2000)
	n := int(2000 * float64(time.Millisecond) / float64(time.Since(began))) // a millisecond
	fmt.Println(listener.Addr())
	panic(http.Serve(listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { work(n) }))) //nolint:gosec // a test
}

// sharesGroup makes a cpu cgroup below another with shares of version 1, or the weight that runtimes make of these.
func sharesGroup(t *testing.T, parent string, name string, shares int) string {
	t.Helper()
	dir := filepath.Join(parent, name)
	require.NoError(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() {
		assert.Eventually(t, func() bool { return os.Remove(dir) == nil }, 5*time.Second, 20*time.Millisecond)
	})
	file, text := "cpu.shares", strconv.Itoa(shares)
	if podspace.Unified(podspace.CgroupRoot) {
		file, text = "cpu.weight", strconv.Itoa(1+(shares-2)*9999/262142)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	return dir
}

// Batch pods of class BestEffort have the least shares together, so that a server beside them on full cores slows down little: its p99 is
// .8 to 2.7 times that alone, which the log shows. A pod with the least request of cpu would have the shares of all idle Burstable pods
// instead. The bounds are for machines with other work.
func TestBatchBesideAServer(t *testing.T) {
	var bestEffort, burstable float64
	t.Run("BestEffort", func(t *testing.T) { bestEffort = batchBesideAServer(t, 6, 2) })
	t.Run("Burstable", func(t *testing.T) { burstable = batchBesideAServer(t, 2, 8192) })
	assert.Less(t, bestEffort, 8.)
	assert.LessOrEqual(t, 2*bestEffort, burstable) // both are 0 where it skips
}

// batchBesideAServer is the p99 of a server beside batch work, as a multiple of that alone: the median of some rounds. The pod's
// group has 2 shares, that of its class others.
func batchBesideAServer(t *testing.T, rounds, ofClass int) float64 {
	t.Helper()
	root := podspace.CgroupRoot
	top := filepath.Join(root, "cpu")
	if podspace.Unified(root) {
		top = root
	}
	probe := filepath.Join(top, fmt.Sprintf("sigma-concurrency-probe-%d", os.Getpid()))
	if err := os.Mkdir(probe, 0o755); err != nil {
		if os.Getenv(declared) != "" {
			t.Fatalf("%s is set, and %v", declared, err)
		}
		t.Skip(err)
	}
	require.NoError(t, os.Remove(probe))
	parent := sharesGroup(t, top, fmt.Sprintf("sigma-concurrency-beside-%d", os.Getpid()), 262144)
	if podspace.Unified(root) {
		require.NoError(t, os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+cpu"), 0o644))
	}
	start := func(role, group string) (*exec.Cmd, io.Reader) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), asBeside+"="+role)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644))
		return cmd, out
	}
	class := sharesGroup(t, parent, "class", ofClass)
	if podspace.Unified(root) {
		require.NoError(t, os.WriteFile(filepath.Join(class, "cgroup.subtree_control"), []byte("+cpu"), 0o644))
	}
	batch, _ := start("batch", sharesGroup(t, class, "pod", 2))
	require.NoError(t, batch.Process.Signal(syscall.SIGSTOP))
	_, out := start("server", sharesGroup(t, parent, "server", 1024))
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	clients := sharesGroup(t, parent, "clients", 262144)
	require.NoError(t, os.WriteFile(filepath.Join(clients, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644))
	defer func() { // before the group is removed
		require.NoError(t, os.WriteFile(filepath.Join(top, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644))
	}()

	const calls, rate = 600, 200 // of a round; a second
	p99 := func() float64 {
		var mu sync.Mutex
		var all sync.WaitGroup
		var list []float64
		var failed error
		begin := time.Now()
		for i := range calls {
			due := begin.Add(time.Duration(i) * time.Second / rate)
			time.Sleep(time.Until(due))
			all.Go(func() {
				response, err := http.Get("http://" + strings.TrimSpace(line)) //nolint:noctx // its process ends with the test
				if err == nil {
					err = response.Body.Close()
				}
				mu.Lock()
				defer mu.Unlock()
				list, failed = append(list, time.Since(due).Seconds()), errors.Join(failed, err)
			})
		}
		all.Wait()
		require.NoError(t, failed)
		slices.Sort(list)
		return list[len(list)*99/100]
	}
	p99() // connections
	var alone, besides, ratios []float64
	before := cpuOf(t, batch.Process.Pid)
	for range rounds { // in turn, since the machine has other work
		alone = append(alone, p99())
		require.NoError(t, batch.Process.Signal(syscall.SIGCONT))
		time.Sleep(200 * time.Millisecond)
		besides = append(besides, p99())
		require.NoError(t, batch.Process.Signal(syscall.SIGSTOP))
		time.Sleep(200 * time.Millisecond)
		ratios = append(ratios, besides[len(besides)-1]/alone[len(alone)-1])
	}
	used := cpuOf(t, batch.Process.Pid) - before
	slices.Sort(ratios)
	t.Logf("p99 alone %.2f to %.2f ms, beside batch %.2f to %.2f ms; ratio %.2f, %.2f to %.2f; batch used %.1f cores",
		1000*slices.Min(alone), 1000*slices.Max(alone), 1000*slices.Min(besides), 1000*slices.Max(besides),
		ratios[rounds/2], ratios[0], ratios[rounds-1], used/(float64(rounds)*(calls/rate+.2)))
	assert.Greater(t, used, 1., "batch has cpu")
	return ratios[rounds/2]
}

// cpuOf is the cpu that a process used so far, in seconds.
func cpuOf(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+2:]))
	ticks := 0.
	for _, f := range fields[11:13] {
		n, err := strconv.ParseFloat(f, 64)
		require.NoError(t, err)
		ticks += n
	}
	return ticks / 100
}
