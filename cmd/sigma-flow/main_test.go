package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
)

const asProgram = "SIGMA_FLOW_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program is the command in a process of its own.
func program(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// called runs the command in the process.
func called(t testing.TB, args ...string) (string, error) {
	t.Helper()
	cmd := command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestRefusedFlags(t *testing.T) {
	for args, want := range map[string]string{
		"agent":                             "say --observe, which only reads, --order or --policy",
		"agent --observe --order":           "say --observe, which only reads, --order or --policy",
		"agent --order --rate 1G --floor 0": "--floor 0: want 0.001 to 0.05",
		"agent --order --rate 1G --uplink lo --pins /nowhere/x": "/nowhere: no such file",
		"agent --order":                                          "--order needs --rate",
		"agent --order --rate 1k":                                "--rate 1k: want 1Mbit/s to 1Tbit/s to order",
		"agent --observe --keep-order":                           "--keep-order and --floor are for --order",
		"agent --observe --pins /x":                              "--pins is for --order and --policy",
		"central --every 1ms":                                    "--every 1ms: want at least 1s",
		"central --metrics-bind-address 9907 --namespace n":      "want host:port or :port",
		"central --kubeconfig /nowhere --namespace n":            "/nowhere",
		"agent --policy":                                         "--policy needs --node-name",
		"agent --order --rate 1G --node-name n":                  "--policy needs --node-name, the name of this node's object, and nothing else does",
		"agent --policy --node-name n --pins=":                   "--policy needs --pins",
		"agent --policy --node-name n --rate 1k":                 "--rate 1k: want 1Mbit/s to 1Tbit/s to order",
		"agent --policy --node-name n --every 61s":               "--every 1m1s: want at most 1m with --policy",
		"agent --policy --order --node-name n":                   "say --observe",
		"agent --observe --every 1ms":                            "--every 1ms: want at least 1s",
		"agent --order --rate 1G --gap 10ms":                     "--gap 10ms: want at least 20ms to order",
		"agent --order --rate 1G --gap 61m":                      "--gap 1h1m0s: want at least 1ms and at most 1h0m0s",
		"agent --observe --gap 0":                                "--gap 0s: want at least 1ms",
		"agent --observe --flows 0":                              "--flows 0: want at least 1",
		"agent --observe --ring-bytes 5000":                      "--ring-bytes 5000: want a power of two from ",
		"agent --observe --bands 9":                              "--bands 9: want 2 to 8",
		"agent --observe --rate fast":                            `--rate "fast": want a number`,
		"agent --observe --metrics-bind-address :9907":           "only a loopback address is served in plain HTTP",
		"agent --observe --metrics-bind-address 9907":            "want host:port or :port",
		"report /nowhere":                                        "open /nowhere/report.json: no such file or directory",
		"report http://127.0.0.1:1/":                             "connection refused",
		"report --format xml http://127.0.0.1:1/ http://a.test/": "accepts at most 1 arg",
	} {
		_, err := called(t, strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
	}
}

// What the machine lacks is said by name, and fails.
func TestCheck(t *testing.T) {
	t.Parallel()
	text, err := called(t, "check")
	for _, need := range node.Probe() {
		require.Contains(t, text, need.Name)
	}
	if node.Missing(node.Probe()) == nil {
		require.NoError(t, err)
		require.Contains(t, text, "there    TCX\n")
	} else {
		require.ErrorIs(t, err, errMissing)
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, to do without it")
	}
	// A user without capabilities gets to read the program.
	folder, err := os.MkdirTemp("", "sigma-flow") //nolint:usetesting // another user cannot get into a test's own
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(folder) }()
	require.NoError(t, os.Chmod(folder, 0o755))
	copied := filepath.Join(folder, "sigma-flow")
	content, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(copied, content, 0o755))
	as := func(capabilities []uintptr, args ...string) (string, error) {
		cmd := program(t, args...)
		cmd.Path, cmd.Dir = copied, folder
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: capabilities}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"check"}, {"agent", "--observe", "--rate", "1G"}} {
		out, err := as(nil, args...)
		require.Error(t, err, args)
		require.Contains(t, out, "CAP_BPF: the process does not have it")
		require.Contains(t, out, "CAP_NET_ADMIN: the process does not have it")
	}
	if node.Missing(node.Probe()) != nil {
		return
	}
	// These two are enough, and neither is alone.
	out, err := as([]uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN}, "check")
	require.NoError(t, err, out)
	for _, one := range []uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN} {
		out, err = as([]uintptr{one}, "check")
		require.Error(t, err, out)
	}
}

// An agent on a node of two pods: what it reports is what was sent, its files are those that simulate takes, and it
// leaves nothing behind.
func TestAgent(t *testing.T) {
	t.Parallel()
	if err := node.Missing(node.Probe()); err != nil {
		t.Skipf("no BPF here: %v", err)
	}
	bed := nodetest.New(t)
	nodetest.Listen(t, bed.Peer, nodetest.AddressPeer+":9000")
	folder := filepath.Join(t.TempDir(), "out")
	const metrics = "127.0.0.1:9917"
	agent := program(t, "agent", "--observe", "--interface", "pod1,pod2", "--uplink", "up0", "--rate", "200M", "--every", "1s", "--gap", "1m", "--out", folder, "--metrics-bind-address", metrics)
	log := &bytes.Buffer{}
	agent.Stderr = log
	require.NoError(t, nodetest.Within(bed.Node, agent.Start))
	// ask calls another of the program's commands on the node.
	ask := func(args ...string) (string, error) {
		cmd := program(t, args...)
		var out []byte
		err := nodetest.Within(bed.Node, func() (err error) {
			out, err = cmd.CombinedOutput()
			return err
		})
		return string(out), err
	}
	require.Eventually(t, func() bool { _, err := ask("report", "http://"+metrics+"/report"); return err == nil }, 20*time.Second, 200*time.Millisecond, "%s", log)

	rng := rand.New(rand.NewPCG(7, 8))
	total, largest := int64(0), int64(0)
	sent := map[netip.AddrPort]int64{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(8)
	for range 300 {
		size := int64(200 * math.Exp(rng.Float64()*8))
		total += size
		largest = max(largest, size)
		group.Go(func() error {
			from, err := nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", size, 1)
			mu.Lock()
			defer mu.Unlock()
			sent[from] = size
			return err
		})
	}
	require.NoError(t, group.Wait())
	time.Sleep(1100 * time.Millisecond)
	require.NoError(t, agent.Process.Signal(syscall.SIGTERM))
	require.NoError(t, agent.Wait(), "%s", log)

	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, reportFile), []byte("{}"), 0o600))
	_, err := called(t, "report", other)
	require.ErrorContains(t, err, "at: it is missing: this is no agent's report")
	_, err = called(t, "report", folder, "--format", "xml")
	require.ErrorContains(t, err, `--format "xml": want table or json`)
	text, err := called(t, "report", folder)
	require.NoError(t, err)
	t.Logf("\n%s", text)
	require.Regexp(t, `(?m)^At this load short flows wait `, text)
	require.Regexp(t, `(?m)^uplink up0 of 200Mbit/s, `, text)
	require.Regexp(t, `(?m)^300 flows and \d+ bytes seen; the window has 300 sizes`, text)
	require.Regexp(t, `(?m)^2 interfaces, (1.0|0.99)\d+ of their packets seen; 0 records lost, 0 flows evicted, 0 packets unkept, `, text)
	require.Regexp(t, `(?m)^ +pod1 +tcp/9000 +client +300 `, text)
	require.Contains(t, log.String(), "At this load short flows wait")
	for _, name := range []string{"sizes.csv", "sizes-pod1-tcp-9000-client.csv"} {
		file, err := os.Open(filepath.Join(folder, name))
		require.NoError(t, err)
		sizes, err := flow.ParseSizes(name, file, false)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.InEpsilon(t, float64(total)/300, sizes.Mean(), .03)
		require.InEpsilon(t, float64(largest), sizes.Largest(), .03)
	}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 3, "no temporary files: %v", entries)
}

// While an agent runs, its metrics are there; a second agent beside it sees the same, and one that is killed harms nobody.
func TestTwoAgents(t *testing.T) {
	t.Parallel()
	if err := node.Missing(node.Probe()); err != nil {
		t.Skipf("no BPF here: %v", err)
	}
	bed := nodetest.New(t)
	nodetest.Listen(t, bed.Peer, nodetest.AddressPeer+":9000")
	var agents []*exec.Cmd
	for i := range 2 {
		agent := program(t, "agent", "--observe", "--interface", "pod1", "--uplink", "up0", "--rate", "200M", "--every", "1s", "--gap", "1m", "--metrics-bind-address", fmt.Sprint("127.0.0.1:", 9918+i))
		require.NoError(t, nodetest.Within(bed.Node, agent.Start))
		agents = append(agents, agent)
	}
	metrics := func(i int) string {
		c := nodetest.Client(bed.Node)
		response, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", 9918+i))
		if err != nil {
			return err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return string(text)
	}
	for i := range agents {
		require.Eventually(t, func() bool { return strings.Contains(metrics(i), "sigma_flow_interfaces 1\n") }, 20*time.Second, 100*time.Millisecond)
	}
	for range 5 {
		_, err := nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", 5000, 1)
		require.NoError(t, err)
	}
	for i := range agents {
		require.Contains(t, metrics(i), "sigma_flow_opened_total 5\n")
	}
	require.NoError(t, agents[0].Process.Kill())
	require.Error(t, agents[0].Wait())
	_, err := nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", 5000, 1)
	require.NoError(t, err)
	text := metrics(1)
	require.Contains(t, text, "sigma_flow_opened_total 6\n")
	require.Regexp(t, `(?m)^sigma_flow_packets_seen_ratio (1|0\.9)`, text)
	require.NoError(t, agents[1].Process.Signal(syscall.SIGTERM))
	require.NoError(t, agents[1].Wait())
}
