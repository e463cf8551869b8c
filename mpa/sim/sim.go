package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// Config is one simulation: an application, its load and its autoscaler.
type Config struct {
	App  App
	Load loadsim.Load
	// Seconds to simulate, and how many of the first do not count.
	Seconds, Warmup float64
	Seed            uint64
	// Agent and Guards decide; the target is the app's.
	Agent  mpa.Agent
	Guards mpa.Guards
	// Plan, if set, decides in place of both.
	Plan *Plan
	Site Site
	// Updates of the application, in order of time.
	Updates []Update
	// Gates before the pods measure them, and take a limit from the agent; without them
	// the limit is the application's workers for ever.
	Gates bool
	// Record, if set, is called with each minute that counts, in order of time.
	Record func(Minute)
	// Decided, if set, is called with each observation and the controller's decision, in
	// order of time; not with those of a Plan.
	Decided func(*mpa.Observation, mpa.Decision)
}

// A Minute has means over the minute that ends at Time.
type Minute struct {
	Time float64 // seconds since the simulation began
	// Rate of arriving requests, per second.
	Rate float64
	// Replicas wanted at its end, and pods that took requests.
	Replicas int32
	Ready    int
	// Requested and used: cores and bytes.
	CPU, CPUUsed       float64
	Memory, MemoryUsed float64
	// Percentiles of latency in seconds. A lost request never ends, so +Inf means that the
	// percentile is lost; NaN without requests.
	P50, P95, P99 float64
	// Changes of the number of replicas and of their size, and containers that ran out of
	// memory.
	Scalings, Resizes, Kills int
	// Violated: the promised percentile was not kept.
	Violated bool
}

// A Site is the place where the workload runs: nodes, delays and measurement. Times are in
// seconds.
type Site struct {
	Nodes []mpa.Resources
	// Interval between decisions, time between scrapes, lag until a scrape is visible, and
	// the window over which usage and latency are averaged.
	Interval, Scrape, Lag, Window float64
	// Start and Resize of a pod, and Grace for the requests of one that ends.
	Start, Resize loadsim.Dist
	Grace         float64
	// Miss is the share of a pod's scrapes that fail.
	Miss float64
	// Outages are spans of seconds without scrapes.
	Outages [][2]float64
	// EvictAfter is the time for which a resize waits for room on its node before the pod is
	// replaced by one on a node with room; 0 = for ever. One pod at a time is replaced, and
	// never the only ready one.
	EvictAfter float64
}

// DefaultSite has eight nodes of 16 cores and 64 GiB and the usual periods of a cluster.
func DefaultSite() Site {
	nodes := make([]mpa.Resources, 8)
	for i := range nodes {
		nodes[i] = mpa.Resources{CPU: 16_000, Memory: 64 << 30}
	}
	return Site{
		Nodes: nodes, Interval: 15, Scrape: 15, Lag: 5, Window: 60,
		Start: loadsim.Dist{Mean: 12, CV: .5}, Resize: loadsim.Dist{Mean: 1.5, CV: .5}, Grace: 30, Miss: .005, EvictAfter: 300,
	}
}

// A Result has the figures of a simulation, without its warm-up.
type Result struct {
	Hours float64 `json:"hours"`
	// Requests that arrived, those answered late or not at all, and the minutes in which
	// the promised percentile was not kept.
	Requests         int64   `json:"requests"`
	Violations       int64   `json:"violating_requests"`
	ViolatingMinutes int     `json:"violating_minutes"`
	P50              float64 `json:"p50_seconds"` // of answered requests
	P95              float64 `json:"p95_seconds"`
	P99              float64 `json:"p99_seconds"`
	// Requested resources, and the share of them that was used.
	CoreHours      float64 `json:"core_hours"`
	GiBHours       float64 `json:"gib_hours"`
	CPUUtilisation float64 `json:"cpu_utilisation"`
	MemUtilisation float64 `json:"memory_utilisation"`
	ReplicaChanges int     `json:"replica_changes"`
	RequestChanges int     `json:"request_changes"`
	LimitChanges   int     `json:"limit_changes,omitempty"`
	// The most changes of each kind in any hour, the warm-up's included.
	MostReplicaChanges int `json:"most_replica_changes"`
	MostRequestChanges int `json:"most_request_changes"`
	// Those of MostRequestChanges' kind that changed cpu alone.
	MostCPUChanges int `json:"most_cpu_changes"`
	// Those of MostReplicaChanges' kind that shrank the workload.
	MostReplicaShrinks int `json:"most_replica_shrinks"`
	// Those of MostRequestChanges' kind with less of a resource and more of none.
	MostRequestShrinks int `json:"most_request_shrinks,omitempty"`
	// Containers that ran out of memory, and pods that made room for larger ones.
	Kills        int     `json:"oom_kills"`
	Evictions    int     `json:"evictions"`
	MeanReplicas float64 `json:"mean_replicas"`
	Tries        int64   `json:"tries"`
	// Lost requests, of the violating ones, were never answered. The other percentiles include
	// all requests; a lost one never ends, so +Inf means that the percentile is lost.
	Lost   int64   `json:"lost_requests"`
	AllP50 Seconds `json:"p50_all_seconds"`
	AllP95 Seconds `json:"p95_all_seconds"`
	AllP99 Seconds `json:"p99_all_seconds"`
}

// tick is the interval at which pods change their state, in seconds.
const tick = .5

// siteStream is the stream of random numbers of the site: delays and scrapes. Stream 0 is
// the engine's.
const siteStream = 1

// epoch is the time at second 0, for agents that use the time of day.
var epoch = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// simulation is the state of a run.
type simulation struct {
	cfg       *Config
	e         *loadsim.Engine
	pods      []*instance
	replicas  int32
	limit     int             // requests that a pod works on at once
	requests  []mpa.Resources // of new pods; one container
	made      int
	rng       *rand.Rand      // of the site: delays and scrapes
	changes   [5]window       // of replicas, of requests, of their cpu alone, to fewer replicas, and to smaller requests
	free      []mpa.Resources // of each node
	control   *mpa.Controller
	scrapes   []scrape
	version   int // how many updates there were
	decisions func(*mpa.Observation, mpa.Decision)

	result           Result
	minute           loadsim.Latencies
	minuteFailed     int64
	busy, memorySecs float64
	before           sums // the last minute
}

// Run simulates. It fails on a bad configuration, or with the error of the context.
func Run(ctx context.Context, cfg Config) (Result, error) {
	s, err := newSimulation(&cfg)
	if err != nil {
		return Result{}, err
	}
	if err := s.run(ctx); err != nil {
		return Result{}, err
	}
	return s.result, nil
}

func newSimulation(cfg *Config) (*simulation, error) {
	if err := cfg.App.prepare(); err != nil {
		return nil, err
	}
	if len(cfg.App.Target.Containers) != 1 {
		return nil, fmt.Errorf("app %q: the simulator knows pods of one container", cfg.App.Name)
	}
	if len(cfg.Load.PerSec) == 0 || !(cfg.Load.Step > 0) {
		return nil, fmt.Errorf("the load has no steps")
	}
	if err := checkUpdates(cfg.Updates); err != nil {
		return nil, err
	}
	control, err := mpa.NewController(cfg.App.Target, cfg.Agent, cfg.Guards)
	if err != nil {
		return nil, err
	}
	s := &simulation{
		cfg: cfg, control: control, replicas: cfg.App.Replicas, limit: cfg.App.Workers,
		requests: []mpa.Resources{cfg.App.Request}, free: slices.Clone(cfg.Site.Nodes),
		e: loadsim.New(&cfg.App.Service, cfg.Seed, cfg.Load.Arrivals(cfg.Seed)), rng: rand.New(rand.NewPCG(cfg.Seed, siteStream)),
	}
	s.e.Window = &loadsim.Latencies{}
	s.e.Failed = func() { s.minuteFailed++ }
	s.e.Answered = func(latency float64) { s.minute.Add(latency) }
	s.match()
	// The pods are ready when the simulation begins.
	for _, p := range s.pods {
		if p.node >= 0 {
			p.started, p.ready = 0, 0
			s.open(p)
		}
	}
	return s, nil
}

func (s *simulation) run(ctx context.Context) error {
	site := &s.cfg.Site
	var before loadsim.Counters
	counting := s.cfg.Warmup == 0
	for i := 1; float64(i)*tick <= s.cfg.Seconds; i++ {
		now := float64(i) * tick
		s.e.Run(now)
		if !counting && now > s.cfg.Warmup {
			counting = true
			before, s.e.All = s.e.Counters(), loadsim.Latencies{}
			s.result, s.busy, s.memorySecs = Result{}, 0, 0
			s.minute, s.minuteFailed = loadsim.Latencies{}, 0
			for _, p := range s.pods {
				s.busy -= p.Busy()
			}
			s.before = s.sums(s.e.Now())
		}
		s.turn(now)
		s.update(now)
		s.account()
		if every(now, 60) {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.endMinute(now, counting)
		}
		if every(now, site.Scrape) {
			s.scrape(now)
		}
		if every(now, site.Interval) {
			s.decide(now)
		}
	}
	s.finish(before)
	return nil
}

// every reports whether a tick is a multiple of a period.
func every(now, period float64) bool {
	return math.Mod(now+tick/2, period) < tick
}

// decide calls the controller or the plan, and carries the action out.
func (s *simulation) decide(now float64) {
	o := s.observe(now)
	var d mpa.Decision
	if s.cfg.Plan != nil {
		d = s.cfg.Plan.decide(s, o)
	} else {
		if d = s.control.Decide(o); s.cfg.Decided != nil {
			s.cfg.Decided(o, d)
		}
	}
	if s.decisions != nil {
		s.decisions(o, d)
	}
	if d.Action == nil {
		return
	}
	if c := d.Action.Containers; c != nil {
		if c[0].Memory == s.requests[0].Memory {
			s.changes[2].add(now)
		}
		if had := s.requests[0]; c[0] != had && c[0].Max(had) == had {
			s.changes[4].add(now)
		}
		s.requests = c
		s.result.RequestChanges++
		s.changes[1].add(now)
		for _, p := range s.pods {
			if !p.ending {
				s.ask(p, c[0])
			}
		}
	}
	if n := d.Action.Limit; n != 0 {
		s.limit = int(n)
		s.result.LimitChanges++
		for _, p := range s.pods {
			if p.slot >= 0 {
				s.e.Limit(p.slot, s.limit)
			}
		}
	}
	if n := d.Action.Replicas; n != 0 {
		if n < s.replicas {
			s.changes[3].add(now)
		}
		s.replicas = n
		s.result.ReplicaChanges++
		s.changes[0].add(now)
		s.match()
	}
}

// A window counts events in a sliding hour.
type window struct {
	times []float64
	most  int
}

func (w *window) add(now float64) {
	w.times = append(w.times, now)
	for w.times[0] <= now-3600 {
		w.times = w.times[1:]
	}
	w.most = max(w.most, len(w.times))
}

func (s *simulation) finish(before loadsim.Counters) {
	r := &s.result
	c := s.e.Counters()
	r.Requests = c.Arrived - before.Arrived
	r.Tries = c.Tries - before.Tries
	r.Violations = c.Late - before.Late + c.Failed - before.Failed
	r.P50, r.P95, r.P99 = s.e.All.Percentile(50), s.e.All.Percentile(95), s.e.All.Percentile(99)
	r.Lost = c.Failed - before.Failed
	all := func(p float64) Seconds { return Seconds(s.e.All.WithLost(p, r.Lost)) }
	r.AllP50, r.AllP95, r.AllP99 = all(50), all(95), all(99)
	for _, p := range s.pods {
		s.busy += p.Busy()
	}
	r.CPUUtilisation = s.busy / 3600 / r.CoreHours
	r.MemUtilisation = s.memorySecs / r.GiBHours
	r.MeanReplicas *= tick / 3600 / r.Hours
	r.MostReplicaChanges, r.MostRequestChanges = s.changes[0].most, s.changes[1].most
	r.MostCPUChanges, r.MostReplicaShrinks, r.MostRequestShrinks = s.changes[2].most, s.changes[3].most, s.changes[4].most
}
