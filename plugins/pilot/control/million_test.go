package control

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/evidence"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

var recordedEvents = flag.Int("recorded-events", 60_000, "events of TestRecording")

const (
	cityDays  = 10
	cityNodes = 200
	cityCores = 32
)

// A city is a cluster that writes a decision log, and counts what stands.
type city struct {
	t       *testing.T
	log     *ledger.Log
	state   *ledger.Ledger
	seq     int
	events  int
	nodes   [cityNodes]struct{ cpu, pods int64 }
	inUse   int
	last    float64         // time
	hours   map[int]float64 // node-hours, by day; of a day up to its last event
	leaving [][]resident    // by minute
}

type resident struct {
	uid  string
	node int
	cpu  int64
}

func (c *city) write(at float64, list ...*ledger.Event) {
	for _, e := range list {
		e.Time = at
		require.NoError(c.t, c.state.Apply(e))
	}
	require.NoError(c.t, c.log.Write(list...))
	c.events += len(list)
	if c.log.Full() {
		now := time.UnixMilli(int64(at * 1e3))
		description := c.state.Describe(func(p *ledger.Pod) (string, int64) { return "shop/" + p.UID(), 0 })
		for _, e := range description {
			e.Time = at
		}
		require.NoError(c.t, c.log.Begin(now, description))
		require.NoError(c.t, c.log.Prune())
	}
}

// pass counts the nodes in use up to a time, which is that of an event.
func (c *city) pass(at float64) {
	from := c.last
	for from < at {
		d := int(from / day.Seconds())
		to := min(at, float64(d+1)*day.Seconds())
		if to == at { // what is behind the last event of a day does not count
			c.hours[d] += float64(c.inUse) * (to - from) / 3600
		}
		from = to
	}
	c.last = at
}

func (c *city) begin(at float64) {
	list := []*ledger.Event{{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Profile: "sigma", Fleet: "fixed", Units: map[string]string{"cpu": "m"}}}}
	for i := range c.nodes {
		list = append(list, &ledger.Event{Kind: ledger.KindNode, Node: fmt.Sprintf("node-%03d", i), Machine: &ledger.Machine{
			Capacity: map[string]int64{"cpu": cityCores * 1000, "memory": 128 << 30, "pods": 110}, Cost: 1,
		}})
	}
	for i := range 20 {
		name := fmt.Sprintf("shop/app-%02d", i)
		list = append(list, &ledger.Event{Kind: ledger.KindApp, App: name, Spec: &ledger.App{
			Group: name, Demand: map[string]int64{"cpu": int64(100 * (i + 1)), "memory": int64(i+1) << 28, "pods": 1},
		}})
	}
	c.write(at, list...)
}

// minute lets pods go and come.
func (c *city) minute(n int, begin float64, pods int, rng *rand.Rand) {
	at := begin + float64(n)*60
	for _, r := range c.leaving[n] {
		at += .001
		c.pass(at)
		node := &c.nodes[r.node]
		if node.cpu, node.pods = node.cpu-r.cpu, node.pods-1; node.pods == 0 {
			c.inUse--
		}
		c.write(at, &ledger.Event{Kind: ledger.KindRemove, UID: r.uid, Pod: "shop/" + r.uid})
	}
	for range pods {
		app := rng.IntN(20)
		cpu := int64(100 * (app + 1))
		on := -1
		for i := range c.nodes {
			if c.nodes[i].cpu+cpu <= cityCores*1000 && c.nodes[i].pods < 60 {
				on = i
				break
			}
		}
		require.GreaterOrEqual(c.t, on, 0, "the cluster is full")
		at += .001
		c.pass(at)
		if c.nodes[on].pods == 0 {
			c.inUse++
		}
		c.nodes[on].cpu, c.nodes[on].pods = c.nodes[on].cpu+cpu, c.nodes[on].pods+1
		c.seq++
		r := resident{fmt.Sprintf("pod-%07d", c.seq), on, cpu}
		gone := min(len(c.leaving)-1, n+1+int(rng.ExpFloat64()*60))
		c.leaving[gone] = append(c.leaving[gone], r)
		e := ledger.Event{UID: r.uid, Pod: "shop/" + r.uid, App: fmt.Sprintf("shop/app-%02d", app)}
		arrives, decided := e, e
		arrives.Kind = ledger.KindArrive
		decided.Kind, decided.Node, decided.Decision = ledger.KindDecide, fmt.Sprintf("node-%03d", on), &ledger.Decision{Cause: ledger.CauseNeutral}
		c.write(at, &arrives, &decided)
	}
	c.leaving[n] = nil
}

// TestRecording records ten days of a cluster, of which the scheduler keeps the newest files of its log
// only: memory is flat, the disk has what is allowed, and the replay of each segment comes to the
// nodes that were in use. `make pilot-recording` does it with a million events.
func TestRecording(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and memory is measured: not for the race detector")
	}
	debug.FreeOSMemory() // what tests before had
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Logf("the most memory is that of all tests so far: %v", err)
	}
	dir := t.TempDir()
	begin := float64(friday.Truncate(day).Unix())
	logBytes, logFiles := int64(*recordedEvents)*30, 2 // an event has some 120 bytes, beside the descriptions
	log, err := ledger.OpenRotatingLog(filepath.Join(dir, "decisions.jsonl"), ledger.Rotation{Bytes: logBytes, Files: logFiles})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	c := &city{t: t, log: log, state: ledger.New(), hours: map[int]float64{}, leaving: make([][]resident, cityDays*24*60+1), last: begin}
	c.begin(begin)

	limits := record.Limits{Days: 8, Bytes: int64(*recordedEvents) * 12}
	s, err := record.OpenSegments(filepath.Join(dir, "segments"), limits)
	require.NoError(t, err)
	l := record.Follow(filepath.Join(dir, "decisions.jsonl"), s, time.Unix(int64(begin), 0).Add(99*day))
	defer l.Close()
	rng := rand.New(rand.NewPCG(1, 0))
	perMinute := float64(*recordedEvents) / 3 / (cityDays * 24 * 60)
	came, most, heaps := 0, int64(0), []uint64{}
	for n := range cityDays*24*60 + 1 {
		pods := int(float64(n+1)*perMinute) - came
		came += pods
		c.minute(n, begin, pods, rng)
		if n%10 == 0 {
			require.NoError(t, l.Poll(friday.AddDate(1, 0, 0)))
			require.NoError(t, l.Fault())
		}
		if n%(24*60) == 0 && n > 0 {
			require.NoError(t, s.Complete(t.Context()))
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			heaps = append(heaps, m.HeapAlloc)
			disk := folderBytes(t, filepath.Join(dir, "segments"))
			most = max(most, disk)
			t.Logf("day %2d: %8d events, heap %5.1f MiB, segments %6.2f MiB in %d days, log %6.2f MiB",
				n/(24*60), c.events, mib(m.HeapAlloc), mib(disk), len(s.List()), mib(folderBytes(t, dir)-disk))
		}
	}
	require.NoError(t, l.Poll(friday.AddDate(1, 0, 0)))
	require.NoError(t, l.Fault())
	require.NoError(t, s.Complete(t.Context()))
	list := s.List()
	// The day under way is beside the segments, unpacked.
	today := int64(*recordedEvents) / cityDays * 400
	require.LessOrEqual(t, most, limits.Bytes+today)
	require.LessOrEqual(t, s.Bytes(), limits.Bytes)
	require.LessOrEqual(t, len(list), limits.Days)
	require.GreaterOrEqual(t, len(list), 4)
	require.LessOrEqual(t, heaps[len(heaps)-1], heaps[1]+heaps[1]/2+8<<20, "memory grows with the days")
	peak := peakMemory(t)
	t.Logf("%d events; most memory of the process %.0f MiB, with what writes the log", c.events, mib(peak))
	require.LessOrEqual(t, mib(peak), 200.)
	require.GreaterOrEqual(t, c.events, *recordedEvents*9/10)

	for _, g := range list {
		require.Empty(t, g.Gap)
		tr, err := trace.Load(s.Trace(g))
		require.NoError(t, err)
		stands, err := evidence.Recorded(tr)
		require.NoError(t, err)
		came, err := evidence.Follow(tr, stands)
		require.NoError(t, err)
		want := c.hours[int(g.Start.Unix()/int64(day.Seconds()))]
		t.Logf("%s: %6d events, %7.1f node-hours in the cluster, %7.1f in the replay", g.Start.Format(time.DateOnly), g.Events, want, came.Spent)
		require.InEpsilon(t, want, came.Spent, 1e-3)
	}
}

func mib[T uint64 | int64](bytes T) float64 { return float64(bytes) / (1 << 20) }

func folderBytes(t *testing.T, dir string) (sum int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	}))
	return sum
}

// peakMemory is the most memory that the process had so far.
func peakMemory(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if os.IsNotExist(err) {
		t.Skip("the system does not tell")
	}
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "VmHWM:")
	require.True(t, ok)
	var kib uint64
	_, err = fmt.Sscanf(rest, "%d kB", &kib)
	require.NoError(t, err)
	return kib << 10
}
