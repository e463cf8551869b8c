package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
)

// lineRate is that of the line, in bits a second.
const lineRate = 1e9

// line makes the uplink a line of that rate with one queue and no program, and returns how to undo it.
func (b *kernelBed) line(t *testing.T) (undo func()) {
	t.Helper()
	var root netlink.Qdisc
	require.NoError(t, nodetest.Within(b.Node, func() error {
		up, err := netlink.LinkByName("up0")
		if err != nil {
			return err
		}
		htb := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: up.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT})
		htb.Defcls = 1
		root = htb
		if err := netlink.QdiscAdd(htb); err != nil {
			return err
		}
		const burst = lineRate / 8 / 1000
		return netlink.ClassReplace(netlink.NewHtbClass(netlink.ClassAttrs{LinkIndex: up.Attrs().Index, Parent: netlink.MakeHandle(1, 0), Handle: netlink.MakeHandle(1, 1)},
			netlink.HtbClassAttrs{Rate: lineRate, Ceil: lineRate, Buffer: burst, Cbuffer: burst}))
	}))
	return func() {
		require.NoError(t, nodetest.Within(b.Node, func() error { return netlink.QdiscDel(root) }))
	}
}

// sent is what the uplink has sent, in bytes.
func (b *kernelBed) sent(t *testing.T) (n uint64) {
	t.Helper()
	require.NoError(t, nodetest.Within(b.Node, func() error {
		up, err := netlink.LinkByName("up0")
		if err == nil {
			n = up.Attrs().Statistics.TxBytes
		}
		return err
	}))
	return n
}

// load keeps the line full while measure runs: six senders of flows of 4 MB, and two of 10 kB.
func (b *kernelBed) load(t *testing.T, measure func()) {
	t.Helper()
	var end atomic.Bool
	var senders errgroup.Group
	for i := range 8 {
		size, pause := int64(4_000_000), time.Duration(0)
		if i >= 6 {
			size, pause = 10_000, 10*time.Millisecond // ports are used again after a minute
		}
		senders.Go(func() error {
			for !end.Load() {
				if _, err := nodetest.Exchange(b.Pod1, nodetest.AddressPeer+":9000", size, 1); err != nil {
					return err
				}
				time.Sleep(pause)
			}
			return nil
		})
	}
	measure()
	end.Store(true)
	require.NoError(t, senders.Wait())
}

// agentBegins is how long an agent loads its program and attaches it, and more.
const agentBegins = 3 * time.Second

// withAgent is what the full uplink sends in so long, in bytes, with the order and an agent that has begun, what that takes of a
// core, and what it took until then, in seconds.
func (b *kernelBed) withAgent(t *testing.T, long time.Duration) (bytes uint64, share, start float64) {
	t.Helper()
	require.NoError(t, nodetest.Within(b.Node, func() error {
		_, err := node.TurnOn(node.OrderOptions{Uplink: "up0", Rate: lineRate, Thresholds: flow.Thresholds{100_000, 1_800_000}, Pins: b.pins})
		if err != nil {
			return err
		}
		agent := program(t, "agent", "--observe", "--uplink", "up0", "--rate", "1G", "--metrics-bind-address", "127.0.0.1:9907")
		agent.Stderr = os.Stderr
		if err := agent.Start(); err != nil {
			return err
		}
		defer func() {
			require.NoError(t, agent.Process.Signal(syscall.SIGTERM))
			require.NoError(t, agent.Wait())
		}()
		used := func() float64 {
			var ts unix.Timespec // of the clock of another process: clock_getcpuclockid(3)
			require.NoError(t, unix.ClockGettime(int32(^agent.Process.Pid<<3|2), &ts))
			return float64(ts.Nano()) / 1e9
		}
		b.load(t, func() {
			time.Sleep(agentBegins)
			start = used()
			before, begin := b.sent(t), time.Now()
			time.Sleep(long)
			bytes = b.sent(t) - before
			share = (used() - start) / time.Since(begin).Seconds()
		})
		return nil
	}))
	s, err := b.status(t)
	require.NoError(t, err)
	require.NotZero(t, s.Bands[2].Bytes, "it was ordered")
	b.off(t)
	return bytes, share, start
}

// What a full line sends with the order and an agent, and without, and what the agent takes of a core:
// docs/results/flow-line.md, which SIGMA_KERNEL_LINE names.
func TestLine(t *testing.T) {
	out := os.Getenv("SIGMA_KERNEL_LINE")
	if out == "" {
		t.Skip("make flow-line measures it, on a quiet machine")
	}
	const repeats, long, report = 8, 3 * time.Second, time.Minute
	bed := newKernelBed(t)
	var ratios, shares []float64
	rows := ""
	mbits := func(n uint64) float64 { return float64(n) * 8 / 1e6 / long.Seconds() }
	for range repeats {
		undo := bed.line(t)
		var without uint64
		bed.load(t, func() {
			time.Sleep(long / 4)
			before := bed.sent(t)
			time.Sleep(long)
			without = bed.sent(t) - before
		})
		undo()
		require.NotZero(t, without)
		with, share, _ := bed.withAgent(t, long)
		ratios, shares = append(ratios, float64(with)/float64(without)), append(shares, share)
		rows += fmt.Sprintf("| %.0f | %.0f | %.3f | %.2f |\n", mbits(without), mbits(with), ratios[len(ratios)-1], 100*share)
	}
	_, minute, start := bed.withAgent(t, report)
	t.Log("\n" + rows)
	middle := func(list []float64) float64 {
		slices.Sort(list)
		return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
	}
	var text strings.Builder
	fmt.Fprintf(&text, `# A full line, with the agent and without

A pod sends to a peer through a node whose uplink sends %s bit/s: six senders of flows of 4 MB, one after the other, and two of 10 kB with pauses of 10 ms. By turns HTB with one class is all there is, and an order with three bands is on and
`+"`sigma-flow agent --observe`"+` runs. %v of each count, by the uplink's counter. The share of a core is that of the agent's process from %v after its start on; what its programs and the order take in the kernel is in the times of those that send.

| Mbit/s without | with | with ÷ without | agent, %% of a core |
| ---: | ---: | ---: | ---: |
%s
Medians: %.3f of the throughput (must .97, aim .99), %.2f %% of a core (must 3, aim 1). Over a minute, with the report that the agent makes in each, it takes %.2f %%; its first %v take %.2f s of CPU.

`+"`make flow-line` at commit %s, as root.\n", flow.FormatAmount(lineRate), long, agentBegins, rows, middle(ratios), 100*middle(shares), 100*minute, agentBegins, start, os.Getenv("SIGMA_COMMIT"))
	require.NoError(t, os.WriteFile(out, []byte(text.String()), 0o644))
}

func (b *kernelBed) status(t *testing.T) (s node.OrderStatus, err error) {
	t.Helper()
	err = nodetest.Within(b.Node, func() (err error) {
		s, err = node.ReadOrder(b.pins)
		return err
	})
	return s, err
}
