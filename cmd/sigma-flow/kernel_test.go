package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/flow/tune"
)

const (
	kernelRate = 200e6
	// payloadShare is what headers leave of a link to the payload of full segments.
	payloadShare = 1448. / 1514
	// quiet is what a short flow alone takes at most, 95 of 100 times, on a machine that can judge.
	quiet = 3 * time.Millisecond
	// overhead of a connection on the testbed: handshake, thread and answer, in seconds.
	overhead = .6e-3
	// oneQueue leaves all flows in the first band: the same program and queue, without an order.
	oneQueue = flow.LargestThreshold
)

// kernelBed is a testbed whose uplink can be ordered.
type kernelBed struct {
	*nodetest.Testbed
	pins string
}

func newKernelBed(t *testing.T) *kernelBed {
	t.Helper()
	if err := node.Missing(node.Probe()); err != nil {
		t.Skipf("no BPF here: %v", err)
	}
	b := &kernelBed{Testbed: nodetest.New(t)}
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Skipf("no bpffs here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	b.pins = filepath.Join(dir, "sigma-flow")
	nodetest.Listen(t, b.Peer, nodetest.AddressPeer+":9000")
	nodetest.ListenMessages(t, b.Peer, messagePeer)
	return b
}

// order puts the uplink in order, or in one queue.
func (b *kernelBed) order(t *testing.T, thresholds flow.Thresholds) {
	t.Helper()
	b.orderBy(t, thresholds, node.DefaultGap)
}

func (b *kernelBed) orderBy(t *testing.T, thresholds flow.Thresholds, gap time.Duration) {
	t.Helper()
	require.NoError(t, nodetest.Within(b.Node, func() error {
		_, err := node.TurnOn(node.OrderOptions{Uplink: "up0", Rate: kernelRate, Thresholds: thresholds, Gap: gap, Pins: b.pins})
		return err
	}))
}

func (b *kernelBed) off(t *testing.T) {
	t.Helper()
	require.NoError(t, nodetest.Within(b.Node, func() error { return node.TurnOff(b.pins, 0) }))
}

// calibrate is what short flows take alone; the 95th percentile of 60.
func (b *kernelBed) calibrate(t *testing.T) time.Duration {
	t.Helper()
	var times []time.Duration
	for range 60 {
		took, err := nodetest.Timed(b.Pod1, time.Now, nodetest.AddressPeer+":9000", 5000)
		require.NoError(t, err)
		times = append(times, took)
	}
	slices.Sort(times)
	return times[56]
}

// send sends flows of both pods at their times to ports of the peer, nil for 9000, and returns what each took in seconds and the
// load while they came.
func (b *kernelBed) send(t *testing.T, flows []sim.Flow, ports []uint16) (fct []float64, load float64) {
	t.Helper()
	fct = make([]float64, len(flows))
	failed := make([]error, len(flows))
	var all sync.WaitGroup
	begin := time.Now()
	bytes := 0.
	for i, f := range flows {
		time.Sleep(time.Until(begin.Add(time.Duration(f.At * 1e9))))
		bytes += f.Size
		all.Go(func() {
			pod := b.Pod1
			if i%2 == 1 {
				pod = b.Pod2
			}
			server := nodetest.AddressPeer + ":9000"
			if ports != nil {
				server = fmt.Sprintf("%s:%d", nodetest.AddressPeer, ports[i])
			}
			took, err := nodetest.Timed(pod, time.Now, server, max(8, int64(f.Size)))
			fct[i], failed[i] = took.Seconds(), err
		})
	}
	all.Wait()
	for i, err := range failed {
		require.NoError(t, err, "flow %d of %.0f bytes", i, flows[i].Size)
	}
	return fct, bytes * 8 / kernelRate / payloadShare / flows[len(flows)-1].At
}

// kernelRow is what one queue and bands gave to the same arrivals.
type kernelRow struct {
	set         string
	load, came  float64 // asked for, and what came
	seed        uint64
	thresholds  flow.Thresholds
	queue, band [4]sim.Class
	simulated   [4]sim.Class // bands
}

// compare sends the same arrivals through one queue and through bands; the odd seeds in the other sequence.
func (b *kernelBed) compare(t *testing.T, set string, sizes *flow.Sizes, load float64, n int, seed uint64) kernelRow {
	t.Helper()
	r := kernelRow{set: set, load: load, seed: seed}
	var err error
	r.thresholds, err = tune.Tuner{}.Propose(sizes, load, tune.DefaultBands, nil, seed)
	require.NoError(t, err)
	traffic := sim.Traffic{Sizes: sizes, Load: load, Rate: kernelRate * payloadShare}
	flows := traffic.Generate(n, 900_000+seed)
	for i := range 2 {
		inBands := (i == 1) == (seed%2 == 0)
		thresholds, to := flow.Thresholds{oneQueue}, &r.queue
		if inBands {
			thresholds, to = r.thresholds, &r.band
		}
		b.order(t, thresholds)
		var fct []float64
		fct, r.came = b.send(t, flows, nil)
		*to = sim.Summarise(flows, fct, 0, kernelRate*payloadShare)
	}
	fct := make([]float64, len(flows))
	sim.NewLink(kernelRate*payloadShare).Bands(flows, r.thresholds, fct)
	for i := range fct {
		fct[i] += overhead
	}
	r.simulated = sim.Summarise(flows, fct, 0, kernelRate*payloadShare)
	return r
}

func (r *kernelRow) String() string {
	ms := func(v float64) string { return fmt.Sprintf("%.4g", v*1e3) }
	q, b := r.queue, r.band
	return fmt.Sprintf("| %s | %.1f (%.2f) | %d | %v | %s / %s / %s / %s | %s / %s / %s / %s | 1/%.1f | 1/%.1f | %.2f | %.2f (%d) | %.2f |",
		r.set, r.load, r.came, r.seed, r.thresholds,
		ms(q[0].Mean), ms(q[1].Mean), ms(q[1].P99), ms(q[3].Mean), ms(b[0].Mean), ms(b[1].Mean), ms(b[1].P99), ms(b[3].Mean),
		q[1].Mean/b[1].Mean, q[1].P99/b[1].P99, b[0].Mean/q[0].Mean, b[3].Mean/q[3].Mean, b[3].Flows, r.simulated[0].Mean/b[0].Mean)
}

// readSizes reads a public set, or skips where there are none.
func readSizes(t *testing.T, file string) *flow.Sizes {
	t.Helper()
	data := os.Getenv("SIGMA_DATA")
	if data == "" {
		t.Skip("SIGMA_DATA is not set")
	}
	f, err := os.Open(filepath.Join(data, "flows", file))
	require.NoError(t, err)
	defer func() { _ = f.Close() }() // only read
	sizes, err := flow.ParseSizes(file, f, false)
	require.NoError(t, err)
	return sizes
}

// In bands short flows wait less than in one queue, in a real kernel with real connections; every byte arrives. With
// SIGMA_KERNEL it is the table of docs/results/flow-kernel.md, which goes to that file.
func TestKernel(t *testing.T) {
	sizes := readSizes(t, "websearch_dctcp.csv")
	bed := newKernelBed(t)
	bed.order(t, flow.Thresholds{oneQueue})
	defer bed.off(t)
	alone := bed.calibrate(t)
	t.Logf("a short flow alone takes %v, 95 of 100 times", alone)
	out := os.Getenv("SIGMA_KERNEL")
	if out == "" {
		if alone > 4*quiet {
			t.Skipf("this machine is too busy to judge: %v", alone)
		}
		r := bed.compare(t, "websearch", sizes, .8, 80, 1)
		t.Log(r.String())
		if alone = bed.calibrate(t); alone > 4*quiet {
			t.Skipf("this machine was too busy to judge: %v", alone)
		}
		require.Less(t, r.band[1].Mean, r.queue[1].Mean/2, "short flows")
		return
	}
	require.Less(t, alone, quiet, "this machine is too busy to judge")
	var rows []kernelRow
	for _, load := range []float64{.6, .7, .8, .9} {
		for seed := range uint64(3) {
			r := bed.compare(t, "websearch", sizes, load, 400, seed)
			t.Log(r.String())
			rows = append(rows, r)
		}
	}
	require.NoError(t, os.WriteFile(out, []byte(kernelPage(alone, rows)), 0o644))
}

// kernelPage is docs/results/flow-kernel.md.
func kernelPage(alone time.Duration, rows []kernelRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Flows in a real kernel: bands against one queue

Two pods send to a peer through a node whose uplink sends %s bit/s, each flow over a connection of its own (TCP, cubic), at Poisson times. The same arrivals go through one queue of
1,000 packets and through %d bands whose thresholds [are found by simulation](../flow-simulate.md), one after the other; odd seeds begin with the bands. Both have the same program and HTB. A flow's time
is that from the beginning of its connection to the answer that all has arrived. Seeds from 900,000; 400 flows a run. A short flow alone takes %.1f ms, 95 of 100 times.

Times are milliseconds: mean of all / short (up to 100 kB) mean / short 99th percentile / long (above 10 MB) mean. The ratios are bands ÷ queue. In brackets: the load that came, and how many flows are long.

| sizes | load | seed | thresholds | one queue | bands | short mean | short p99 | mean of all | long mean | simulated ÷ real, mean of all |
| --- | --- | ---: | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |
`, flow.FormatAmount(kernelRate), tune.DefaultBands, alone.Seconds()*1e3)
	var mean, p99, all, long, simulated []float64
	for _, r := range rows {
		b.WriteString(r.String() + "\n")
		mean = append(mean, r.band[1].Mean/r.queue[1].Mean)
		p99 = append(p99, r.band[1].P99/r.queue[1].P99)
		all = append(all, r.band[0].Mean/r.queue[0].Mean)
		simulated = append(simulated, r.simulated[0].Mean/r.band[0].Mean)
		if r.band[3].Flows > 0 {
			long = append(long, r.band[3].Mean/r.queue[3].Mean)
		}
	}
	fmt.Fprint(&b, "\n| bands ÷ queue | best | median | worst | must | aim |\n| --- | ---: | ---: | ---: | ---: | ---: |\n")
	summary := func(name string, values []float64, must, aim string) {
		slices.Sort(values)
		fmt.Fprintf(&b, "| %s | %.3f | %.3f | %.3f | %s | %s |\n", name, values[0], values[len(values)/2], values[len(values)-1], must, aim)
	}
	summary("short mean", mean, "≤ .125", "≤ .067")
	summary("short p99", p99, "≤ .2", "≤ .083")
	summary("mean of all", all, "≤ .95", "≤ .85")
	summary("long mean", long, "≤ 2.5", "≤ 1.5")
	summary("simulated ÷ real, mean of all", simulated, "± .15", "± .08")
	fmt.Fprintf(&b, "\n`make flow-kernel` at commit %s, as root.\n", os.Getenv("SIGMA_COMMIT"))
	return b.String()
}
