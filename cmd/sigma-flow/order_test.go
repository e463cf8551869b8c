package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	signals "os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
)

func TestRefusedOrders(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, reportFile), []byte(`{"at": "2026-03-01T12:00:00Z", "reason": "10 sizes, want 250"}`), 0o600))
	for args, want := range map[string]string{
		"on --thresholds 100k": "--rate: say how many bits",
		"on --rate 1G":         "say --thresholds",
		"on --rate quick --thresholds 100k --uplink lo":                      `--rate "quick": want a number`,
		"on --rate 1G --thresholds 100k/50k --uplink lo":                     "--thresholds: threshold 2: 50k comes after 100k",
		"on --rate 1G --thresholds 100k --for -1s":                           "--for -1s: want 0 or more",
		"on --rate 1G --thresholds 100k --report /x":                         "none of the others can be",
		"on --rate 1G --uplink lo --report " + folder:                        "the agent proposes none yet: 10 sizes, want 250",
		"on --rate 1G --uplink lo --report /nowhere":                         "open /nowhere/report.json: no such file or directory",
		"on --rate 1G --uplink lo --thresholds 100k --floor 1":               "floor: 1 of the rate, want 0.001 to 0.05",
		"on --rate 1G --uplink lo --thresholds 100k --pins " + folder + "/x": "is in no bpffs",
		"on --rate 1G --uplink lo --thresholds 100k --gap 0":                 "--gap 0s",
		"status --pins " + folder:                                            "no order is on",
		"status --format xml":                                                `--format "xml": want table or json`,
		"off --pins " + folder:                                               "no order is on",
	} {
		_, err := called(t, append([]string{"order"}, strings.Fields(args)...)...)
		require.ErrorContains(t, err, want, args)
	}
}

// An order on trial is off when its time or its process ends; one without an end stays until it is turned off.
func TestOrder(t *testing.T) {
	bed := newKernelBed(t)
	on := func(args ...string) (*bytes.Buffer, func() error, func(os.Signal)) {
		cmd := program(t, append([]string{"order", "on", "--uplink", "up0", "--rate", "200M", "--pins", bed.pins}, args...)...)
		log := &bytes.Buffer{}
		cmd.Stderr = log
		require.NoError(t, nodetest.Within(bed.Node, cmd.Start))
		return log, cmd.Wait, func(s os.Signal) { require.NoError(t, cmd.Process.Signal(s)) }
	}
	status := func() (s node.OrderStatus, err error) {
		var text string
		_ = nodetest.Within(bed.Node, func() error { // the error is err
			text, err = called(t, "order", "status", "--format", "json", "--pins", bed.pins)
			return err
		})
		if err == nil {
			err = json.Unmarshal([]byte(text), &s)
		}
		return s, err
	}
	isOn := func() bool { _, err := status(); return err == nil }

	log, wait, _ := on("--thresholds", "20k/200k", "--for", "1s")
	require.NoError(t, wait(), log)
	require.Contains(t, log.String(), "order on up0: a flow leaves a band after 20k/200k bytes, at 200Mbit/s; for 1s")
	require.Contains(t, log.String(), "the order is off, and up0 as it was")
	require.False(t, isOn())

	log, wait, signal := on("--thresholds", "20k/200k", "--for", "1h")
	require.Eventually(t, isOn, 10*time.Second, 20*time.Millisecond, log)
	signal(syscall.SIGTERM)
	require.NoError(t, wait(), log)
	require.False(t, isOn())

	log, wait, signal = on("--thresholds", "20k/200k", "--for", "1h")
	require.Eventually(t, isOn, 10*time.Second, 20*time.Millisecond, log)
	signal(syscall.SIGKILL)
	require.Error(t, wait())
	require.True(t, isOn(), "the kernel goes on")

	// A trial that loses its terminal is off; one leaves an order alone that is set after it.
	log, wait, signal = on("--thresholds", "20k/200k", "--for", "1h")
	require.Eventually(t, func() bool { s, err := status(); return err == nil && s.Sequence == 2 }, 10*time.Second, 20*time.Millisecond, log)
	hangUp := syscall.SIGHUP
	if signals.Ignored(hangUp) { // this test runs under nohup, and so does the program
		hangUp = syscall.SIGTERM
	}
	signal(hangUp)
	require.NoError(t, wait(), log)
	require.False(t, isOn())
	log, wait, signal = on("--thresholds", "20k/200k", "--for", "1h")
	require.Eventually(t, isOn, 10*time.Second, 20*time.Millisecond, log)

	// A report's thresholds take over.
	report := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(report, reportFile), []byte(`{"at": "2026-03-01T12:00:00Z", "thresholds": "5k/50k/500k"}`), 0o600))
	later, waitLater, _ := on("--report", report, "--for", "0")
	require.NoError(t, waitLater(), later)
	signal(syscall.SIGTERM)
	require.NoError(t, wait(), log)
	require.Contains(t, log.String(), "somebody has set the order meanwhile: it stays on")
	s, err := status()
	require.NoError(t, err)
	require.Equal(t, flow.Thresholds{5_000, 50_000, 500_000}, s.Thresholds)
	require.EqualValues(t, 2, s.Sequence)
	_, err = nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", 100_000, 1)
	require.NoError(t, err)
	require.NoError(t, nodetest.Within(bed.Node, func() error {
		text, err := called(t, "order", "status", "--pins", bed.pins)
		t.Logf("\n%s", text)
		require.NoError(t, err)
		require.Contains(t, text, "up0 of 200Mbit/s, each band at least 0.1 % of it; the thresholds were set 2 times\n")
		require.Regexp(t, `(?m)^ +3 +50k +[1-9]`, text)
		require.Regexp(t, `(?m)^ +4 +500k +0 +0 +0 +0$`, text)
		text, err = called(t, "order", "off", "--pins", bed.pins)
		require.NoError(t, err)
		require.Equal(t, "the order is off\n", text)
		return nil
	}))
	require.False(t, isOn())
}

// An agent that orders puts in force what it finds, hands it over when it is killed, and takes it off at its end.
func TestAgentOrders(t *testing.T) {
	bed := newKernelBed(t)
	const metrics = "127.0.0.1:9921"
	start := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		agent := program(t, append([]string{"agent", "--order", "--interface", "pod1,pod2", "--uplink", "up0", "--rate", "200M", "--every", "1s", "--gap", "1m", "--pins", bed.pins, "--metrics-bind-address", metrics}, args...)...)
		log := &bytes.Buffer{}
		agent.Stderr = log
		require.NoError(t, nodetest.Within(bed.Node, agent.Start))
		return agent, log
	}
	status := func() (s node.OrderStatus, err error) {
		_ = nodetest.Within(bed.Node, func() error { // the error is err
			s, err = node.ReadOrder(bed.pins)
			return err
		})
		return s, err
	}
	get := func(path string) string {
		response, err := nodetest.Client(bed.Node).Get("http://" + metrics + path)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return string(text)
	}
	page := func() string { return get("/metrics") }
	agent, log := start()
	require.Eventually(t, func() bool { return strings.Contains(page(), "sigma_flow_ordering 0\n") }, 20*time.Second, 100*time.Millisecond, "%s", log)
	rng := rand.New(rand.NewPCG(7, 8))
	var group errgroup.Group
	group.SetLimit(8)
	for range 300 {
		size := int64(200 * math.Exp(rng.Float64()*8))
		group.Go(func() error {
			_, err := nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", size, 1)
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Eventually(t, func() bool { return strings.Contains(page(), "sigma_flow_ordering 1\n") }, 20*time.Second, 100*time.Millisecond, "%s", log)
	require.Eventually(t, func() bool { return strings.Contains(get("/report"), `"ordered": true`) }, 20*time.Second, 100*time.Millisecond)
	require.NoError(t, agent.Process.Kill())
	require.Error(t, agent.Wait())
	s, err := status()
	require.NoError(t, err)
	require.True(t, s.Shaping)
	require.Len(t, s.Thresholds, 3)
	require.Contains(t, log.String(), "order on up0: a flow leaves a band after "+s.Thresholds.String()+" bytes; ")

	_, err = nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", 1_000_000, 1)
	require.NoError(t, err)
	left, err := status()
	require.NoError(t, err)
	require.Equal(t, s.Thresholds, left.Thresholds)
	require.Greater(t, left.Bands[3].Bytes, s.Bands[3].Bytes, "the kernel goes on")

	agent, log = start()
	require.Eventually(t, func() bool { return strings.Contains(page(), "sigma_flow_ordering 1\n") }, 20*time.Second, 100*time.Millisecond, "%s", log)
	taken, err := status()
	require.NoError(t, err)
	require.Equal(t, s.Thresholds, taken.Thresholds)
	require.Equal(t, left.Sequence+1, taken.Sequence)
	require.GreaterOrEqual(t, taken.Bands[3].Bytes, left.Bands[3].Bytes, "the counters go on")
	require.NoError(t, agent.Process.Signal(syscall.SIGTERM))
	require.NoError(t, agent.Wait(), "%s", log)
	require.Contains(t, log.String(), "the order is off, and up0 as it was")
	_, err = status()
	require.ErrorIs(t, err, node.ErrNoOrder)
}
