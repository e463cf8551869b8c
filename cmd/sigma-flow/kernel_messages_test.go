package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/flow/tune"
)

const (
	messagePeer = nodetest.AddressPeer + ":9100"
	// connections are persistent, and each sends a message, waits for the answer, and thinks.
	connections = 16
	think       = 200 * time.Millisecond // in the mean, exponential
	// Every tenth message is long. The next one of its connection is short again.
	longMessage = 1_000_000
	// messageLoad is that of the other flows, each on a connection of its own.
	messageLoad = .6
)

// The ways in which the uplink sends the messages.
const (
	inQueue = iota
	inBands
	byConnection // bands where no silence of less than noGap ends a message
	messageWays
)

const noGap = time.Minute

// A messageRow has the completion times of short messages by each rule.
type messageRow struct {
	seed       uint64
	thresholds flow.Thresholds
	short      [messageWays]sim.Class
}

// persistent sends messages over persistent connections beside websearch flows; each seed begins with another way.
func (b *kernelBed) persistent(t *testing.T, sizes *flow.Sizes, n int, seed uint64) *messageRow {
	t.Helper()
	r := &messageRow{seed: seed}
	var err error
	r.thresholds, err = tune.Tuner{}.Propose(sizes, messageLoad, tune.DefaultBands, nil, seed)
	require.NoError(t, err)
	traffic := sim.Traffic{Sizes: sizes, Load: messageLoad, Rate: kernelRate * payloadShare}
	flows := traffic.Generate(n, 910_000+seed)
	for i := range messageWays {
		way := (i + int(seed)) % messageWays
		switch way {
		case inQueue:
			b.order(t, flow.Thresholds{oneQueue})
		case inBands:
			b.order(t, r.thresholds)
		case byConnection:
			b.orderBy(t, r.thresholds, noGap)
		}
		ctx, end := context.WithCancel(t.Context())
		var all sync.WaitGroup
		sent, took, failed := make([][]sim.Flow, connections), make([][]float64, connections), make([]error, connections)
		for c := range connections {
			all.Go(func() { sent[c], took[c], failed[c] = b.converse(ctx, sizes, seed, c) })
		}
		b.send(t, flows, nil)
		end()
		all.Wait()
		for _, err := range failed {
			require.NoError(t, err)
		}
		r.short[way] = sim.Summarise(slices.Concat(sent...), slices.Concat(took...), 0, kernelRate*payloadShare)[1]
	}
	return r
}

// converse sends messages over one connection until the context ends.
func (b *kernelBed) converse(ctx context.Context, sizes *flow.Sizes, seed uint64, c int) (sent []sim.Flow, took []float64, err error) {
	pod, rng := b.Pod1, rand.New(rand.NewPCG(seed, uint64(c)))
	if c%2 == 1 {
		pod = b.Pod2
	}
	conn, err := nodetest.Connect(pod, messagePeer)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = conn.Close() }() // all was answered
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return sent, took, nil
		case <-time.After(time.Duration(rng.ExpFloat64() * float64(think))):
		}
		size := sizes.Quantile(rng.Float64() * sizes.CDF(100e3)) // of short flows
		if (i+c)%10 == 0 {
			size = longMessage
		}
		d, err := nodetest.Message(conn, time.Now, max(8, int64(size)))
		if err != nil {
			return nil, nil, fmt.Errorf("message %d of connection %d: %w", i, c, err)
		}
		sent, took = append(sent, sim.Flow{Size: size}), append(took, d.Seconds())
	}
}

func (r *messageRow) String() string {
	text := fmt.Sprintf("| %d | %v |", r.seed, r.thresholds)
	for _, c := range r.short {
		text += fmt.Sprintf(" %.4g / %.4g (%d) |", c.Mean*1e3, c.P99*1e3, c.Flows)
	}
	return text + fmt.Sprintf(" 1/%.1f | 1/%.1f |", r.short[inQueue].Mean/r.short[inBands].Mean, r.short[inQueue].P99/r.short[inBands].P99)
}

// Short messages of connections that are kept open wait less in bands than in one queue. With SIGMA_KERNEL_MESSAGES it is the table
// of docs/results/flow-messages.md, which goes to that file.
func TestKernelMessages(t *testing.T) {
	sizes := readSizes(t, "websearch_dctcp.csv")
	bed := newKernelBed(t)
	bed.order(t, flow.Thresholds{oneQueue})
	defer bed.off(t)
	alone := bed.calibrate(t)
	out := os.Getenv("SIGMA_KERNEL_MESSAGES")
	if out == "" {
		if alone > 4*quiet {
			t.Skipf("this machine is too busy to judge: %v", alone)
		}
		r := bed.persistent(t, sizes, 60, 1)
		t.Log(r.String())
		if alone = bed.calibrate(t); alone > 4*quiet {
			t.Skipf("this machine was too busy to judge: %v", alone)
		}
		require.Less(t, r.short[inBands].Mean, r.short[inQueue].Mean/2, "short messages")
		return
	}
	require.Less(t, alone, quiet, "this machine is too busy to judge")
	var rows []*messageRow
	for seed := range uint64(3) {
		rows = append(rows, bed.persistent(t, sizes, 200, seed))
		t.Log(rows[seed].String())
	}
	require.NoError(t, os.WriteFile(out, []byte(messagePage(alone, rows)), 0o644))
}

// messagePage is docs/results/flow-messages.md.
func messagePage(alone time.Duration, rows []*messageRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Messages of persistent connections in a real kernel: bands against one queue

%d connections are kept open through [the uplink of the other rows](flow-kernel.md), of %s bit/s. Each sends a message, waits for its answer, and sends the next after %v in the mean (exponential). Nine of ten messages have the sizes of short
websearch flows (up to 100 kB), the tenth %s bytes. At the same time websearch flows come at a load of %.1f, each over a connection of its own. A message's time ends with its answer; a short flow alone takes %.1f ms, 95 of 100 times.

Times are milliseconds: mean / 99th percentile of short messages (how many). "By connection" has the same bands with a gap of %v, as if no silence of less ended a message. The first way of a seed is another each time.

| seed | thresholds | one queue | bands | by connection | mean, bands ÷ queue | p99 |
| ---: | --- | ---: | ---: | ---: | ---: | ---: |
`, connections, flow.FormatAmount(kernelRate), think, flow.FormatAmount(longMessage), messageLoad, alone.Seconds()*1e3, noGap)
	worst := 0.
	for _, r := range rows {
		b.WriteString(r.String() + "\n")
		worst = max(worst, r.short[inBands].Mean/r.short[inQueue].Mean)
	}
	fmt.Fprintf(&b, "\nThe worst mean of short messages is %.3f of that in one queue (must: ≤ .25).\n\n`make flow-messages` at commit %s, as root.\n", worst, os.Getenv("SIGMA_COMMIT"))
	return b.String()
}
