package observe

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
)

// A Report is the estimated gain of a node's flows. Pointers are nil if there is no figure.
type Report struct {
	At      time.Time `json:"at"`
	Uplink  string    `json:"uplink"`
	Rate    float64   `json:"rate_bits_per_second"` // 0 = unknown
	Sent    *float64  `json:"sent_bits_per_second"`
	Load    *float64  `json:"load"`
	Seconds float64   `json:"load_seconds"` // that load and sent are of

	Flows   uint64 `json:"flows"`
	Bytes   uint64 `json:"bytes"`
	Refused uint64 `json:"refused"`
	Unnamed uint64 `json:"unnamed"` // times that a port found no place of its own
	Window  int    `json:"window"`  // sizes
	Changes int    `json:"changes"` // of the distribution

	// The bands that would be active, or are.
	Thresholds string  `json:"thresholds"`
	Ordered    bool    `json:"ordered"` // they are active; the agent fills it in
	Held       bool    `json:"held"`
	Reason     string  `json:"reason"`
	Waits      *Waits  `json:"waits"`
	Ports      []Port  `json:"ports"`
	Running    int     `json:"running_elephants"`
	RunningB   uint64  `json:"running_bytes"`
	Health     *Health `json:"health"`

	// Sizes that pods declare of their flows, and those from history; the agent fills it in.
	Hints []flow.HintState `json:"hints,omitempty"`
}

// Waits are simulated seconds that flows take beyond their size over the rate, in the mean.
type Waits struct {
	ShortFair   float64  `json:"short_fair"`         // all flows share evenly
	ShortCommon float64  `json:"short_common_queue"` // behind long flows in one queue; within a factor of two
	ShortBands  *float64 `json:"short_bands"`
	// Mean times of all and of long flows in bands as shares of those of fair sharing.
	AllShare  *float64 `json:"all_bands_share"`
	LongShare *float64 `json:"long_bands_share"`
}

// A Port is one key.
type Port struct {
	Key
	Flows     uint64  `json:"flows"`
	Bytes     uint64  `json:"bytes"`
	Elephants uint64  `json:"elephants"`
	Window    int     `json:"window"`
	Median    float64 `json:"median_bytes"`
	P99       float64 `json:"p99_bytes"`
	Mean      float64 `json:"mean_bytes"`
	// Deviations of the log of the size around an estimate from flows before, beyond the first band.
	SigmaNode *float64 `json:"sigma_node"` // one estimate for the node, regardless of the port
	SigmaPort *float64 `json:"sigma_port"`
	SigmaPeer *float64 `json:"sigma_peer"` // by port and peer
	Judged    int      `json:"sigma_peer_flows"`
}

// A Health is the share of the traffic that was seen. The agent fills it in.
type Health struct {
	Interfaces int      `json:"interfaces"`
	Seen       *float64 `json:"packets_seen_share"`
	Lost       uint64   `json:"records_lost"`
	Evicted    uint64   `json:"flows_evicted"`
	Unkept     uint64   `json:"packets_unkept"`
	Unparsed   uint64   `json:"packets_unparsed"`
}

// simulated arrivals of a report, and their seed.
const (
	reportArrivals = 50_000
	reportSeed     = 1
)

// Report decides on thresholds, and estimates their effect. Its caller applies them.
func (w *Watcher) Report(now time.Time, uplink string) (*Report, error) {
	w.forget(now)
	r := &Report{
		At: now, Uplink: uplink, Rate: w.rate, Flows: w.flows, Bytes: w.bytes, Refused: w.refused, Unnamed: w.unnamed,
		Window: len(w.window.Sizes()), Changes: w.window.Changes(), Running: len(w.elephants),
	}
	for _, e := range w.elephants {
		r.RunningB += e.bytes
	}
	for _, k := range w.keys() {
		r.Ports = append(r.Ports, w.ports[k].report(k))
	}
	load := math.NaN()
	if bits, over, ok := w.meter.rate(); ok {
		r.Sent, r.Seconds = &bits, over.Seconds()
		if w.rate > 0 {
			load = bits / w.rate
			r.Load = &load
		}
	}
	switch {
	case w.rate == 0:
		r.Held, r.Reason = true, "the rate of the uplink is unknown: say --rate"
		return r, nil
	case r.Load == nil:
		r.Held, r.Reason = true, "the load of the uplink is not known yet"
		return r, nil
	}
	d, err := w.decider.Decide(now, &w.window, load)
	if err != nil {
		return nil, err
	}
	r.Held, r.Reason = d.Hold, d.Reason
	if d.Thresholds != nil {
		r.Thresholds = d.Thresholds.String()
	}
	if r.Window >= flow.LeastFlows && load > 0 {
		if r.Waits, err = w.waits(load, d.Thresholds); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// leastLoad keeps the simulator's times finite.
const leastLoad = .001

// waits simulates the window's sizes at the load.
func (w *Watcher) waits(load float64, t flow.Thresholds) (*Waits, error) {
	sizes, err := flow.SampleSizes("window", w.window.Sizes())
	if err != nil {
		return nil, err
	}
	traffic := sim.Traffic{Sizes: sizes, Load: min(max(load, leastLoad), flow.MostLoad), Rate: w.rate}
	flows := traffic.Generate(reportArrivals, reportSeed)
	link, fct := sim.NewLink(w.rate), make([]float64, len(flows))
	measure := func() (short, all, long float64) {
		classes := sim.Summarise(flows, fct, reportArrivals/10, w.rate)
		return w.wait(flows, fct), classes[0].Mean, classes[3].Mean
	}
	link.Bands(flows, nil, fct)
	var out Waits
	var all, long float64
	out.ShortFair, all, long = measure()
	link.Common(flows, sim.Queue{Buffer: w.buffer}, fct)
	out.ShortCommon, _, _ = measure()
	if t != nil {
		link.Bands(flows, t, fct)
		short, a, l := measure()
		out.ShortBands, out.AllShare = &short, ratio(a, all)
		out.LongShare = ratio(l, long)
	}
	return &out, nil
}

func ratio(a, b float64) *float64 {
	v := a / b
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// wait is the mean time of short flows beyond that of their bytes.
func (w *Watcher) wait(flows []sim.Flow, fct []float64) float64 {
	sum, n := 0., 0
	for i, f := range flows[reportArrivals/10:] {
		if f.Size <= sim.ShortBytes {
			sum += fct[reportArrivals/10+i] - f.Size*8/w.rate
			n++
		}
	}
	return sum / float64(max(1, n))
}

func (p *port) report(k Key) Port {
	out := Port{
		Key: k, Flows: p.flows, Bytes: p.bytes, Elephants: p.elephants,
		SigmaNode: p.node.Sigma(), SigmaPort: p.port.Sigma(), SigmaPeer: p.peers.Sigma(), Judged: p.peers.Flows,
	}
	seen := p.window.Sizes()
	if out.Window = len(seen); out.Window > 0 {
		slices.Sort(seen)
		out.Median, out.P99 = seen[(len(seen)-1)/2], seen[(len(seen)*99+99)/100-1]
		for _, s := range seen {
			out.Mean += s / float64(len(seen))
		}
	}
	return out
}

// Sentence summarises the report in a line.
func (r *Report) Sentence() string {
	if r.Waits == nil {
		return "Nothing to say yet: " + r.Reason + "."
	}
	now := fmt.Sprintf("short flows wait %s where all share evenly and about %s in a common queue", milliseconds(r.Waits.ShortFair), milliseconds(r.Waits.ShortCommon))
	if r.Waits.ShortBands == nil {
		return "At this load " + now + "; no bands are proposed: " + r.Reason + "."
	}
	return fmt.Sprintf("At this load %s; in bands they would wait %s.", now, milliseconds(*r.Waits.ShortBands))
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.3g ms", seconds*1000) }

// mostLines of ports that the text shows, those with the most bytes.
const mostLines = 20

// Text writes the report for people.
func (r *Report) Text(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Sentence())
	fmt.Fprintf(&b, "uplink %s", r.Uplink)
	if r.Rate > 0 {
		fmt.Fprintf(&b, " of %sbit/s", flow.FormatAmount(r.Rate))
	}
	if r.Sent != nil {
		fmt.Fprintf(&b, ", %.3g Mbit/s over %.0f s", *r.Sent/1e6, r.Seconds)
	}
	if r.Load != nil {
		fmt.Fprintf(&b, ", load %.3g", *r.Load)
	}
	fmt.Fprintf(&b, "\n%d flows and %d bytes seen; the window has %d sizes and was emptied %d times; %d large flows are running\n", r.Flows, r.Bytes, r.Window, r.Changes, r.Running)
	if r.Thresholds != "" {
		fmt.Fprintf(&b, "thresholds %s: %s\n", r.Thresholds, r.Reason)
	}
	if w := r.Waits; w != nil && w.AllShare != nil {
		fmt.Fprintf(&b, "in bands the mean time of all flows would be %.3g of that of fair sharing", *w.AllShare)
		if w.LongShare != nil {
			fmt.Fprintf(&b, ", that of long ones %.3g", *w.LongShare)
		}
		b.WriteByte('\n')
	}
	if h := r.Health; h != nil {
		fmt.Fprintf(&b, "%d interfaces, %s of their packets seen; %d records lost, %d flows evicted, %d packets unkept, %d not understood\n",
			h.Interfaces, figure(h.Seen, 4), h.Lost, h.Evicted, h.Unkept, h.Unparsed)
	}
	if len(r.Ports) > 0 {
		b.WriteByte('\n')
		ports := slices.Clone(r.Ports)
		slices.SortStableFunc(ports, func(a, c Port) int { return int(min(max(int64(c.Bytes)-int64(a.Bytes), -1), 1)) })
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "interface\tport\tsender\tflows\tbytes\tmedian\tp99\telephants\tσ node\tσ port\tσ peer\t")
		for _, p := range ports[:min(len(ports), mostLines)] {
			fmt.Fprintf(t, "%s\t%s/%d\t%s\t%d\t%d\t%.0f\t%.0f\t%d\t%s\t%s\t%s\t\n", p.Interface, p.Protocol, p.Port, p.Side, p.Flows, p.Bytes, p.Median, p.P99,
				p.Elephants, figure(p.SigmaNode, 2), figure(p.SigmaPort, 2), figure(p.SigmaPeer, 2))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if more := len(ports) - mostLines; more > 0 {
			fmt.Fprintf(&b, "and %d more\n", more)
		}
	}
	if len(r.Hints) > 0 {
		b.WriteByte('\n')
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "workload\tport\tsize\tfrom\tflows\tσ\tσ node\tused\t")
		for _, h := range r.Hints[:min(len(r.Hints), mostLines)] {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%s\t%s\t%t\t\n", h.Workload, h.Port, flow.FormatAmount(float64(h.Size)), h.From, h.Flows, figure(h.Sigma, 2), figure(h.SigmaNode, 2), h.Used)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if more := len(r.Hints) - mostLines; more > 0 {
			fmt.Fprintf(&b, "and %d more\n", more)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func figure(v *float64, digits int) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.*f", digits, *v)
}
