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

// Config is one simulation: an application, its load, and who decides.
type Config struct {
	App  App
	Load loadsim.Load
	// Seconds that are simulated, and how many of the first do not count.
	Seconds, Warmup float64
	Seed            uint64
	// Agent decides within Guards; its target is the app's.
	Agent  mpa.Agent
	Guards mpa.Guards
	// Plan, where set, decides in place of both.
	Plan *Plan
	Site Site
	// Record, where set, is told of each minute that counts, in order of time. It
	// changes nothing.
	Record func(Minute)
	// Decided, where set, is told of each observation and what the controller made of
	// it, in order of time. It changes nothing. A Plan is not told of.
	Decided func(*mpa.Observation, mpa.Decision)
}

// A Minute is what a recorder is told: means over the minute that ends at Time.
type Minute struct {
	Time float64 // seconds since the simulation began
	// Rate of requests that came, per second.
	Rate float64
	// Replicas asked for at its end, and pods that took requests.
	Replicas int32
	Ready    int
	// What the pods asked for and what they used: cores and bytes.
	CPU, CPUUsed       float64
	Memory, MemoryUsed float64
	// Percentiles of latency in seconds; NaN where nothing was answered.
	P50, P95, P99 float64
	// Violated says that the promised percentile was not kept.
	Violated bool
}

// A Site is where the workload runs: nodes, delays and how it is measured. Times are
// in seconds.
type Site struct {
	Nodes []mpa.Resources
	// Interval between decisions, between scrapes, from a scrape to its being seen,
	// and the window that usage and latency are averaged over.
	Interval, Scrape, Lag, Window float64
	// Start of a pod, Resize of one, and Grace for requests of one that ends.
	Start, Resize loadsim.Dist
	Grace         float64
	// Miss is the share of a pod's scrapes that come to nothing.
	Miss float64
	// Outages are spans of seconds in which nothing is scraped.
	Outages [][2]float64
	// EvictAfter is how long a resize waits for room on its node before the pod is
	// replaced by one on another node that has it; 0 = for ever. One goes at a time, and
	// none when it is the only one that is ready.
	EvictAfter float64
}

// DefaultSite has eight nodes of 16 cores and 64 GiB and the periods of a usual cluster.
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

// A Result is what a simulation came to, without its warm-up.
type Result struct {
	Hours float64 `json:"hours"`
	// Requests that came, that were answered late or not at all, and the minutes in
	// which the promised percentile was not kept.
	Requests         int64   `json:"requests"`
	Violations       int64   `json:"violating_requests"`
	ViolatingMinutes int     `json:"violating_minutes"`
	P50              float64 `json:"p50_seconds"`
	P95              float64 `json:"p95_seconds"`
	P99              float64 `json:"p99_seconds"`
	// What the pods asked for, and how much of it was used.
	CoreHours      float64 `json:"core_hours"`
	GiBHours       float64 `json:"gib_hours"`
	CPUUtilisation float64 `json:"cpu_utilisation"`
	MemUtilisation float64 `json:"memory_utilisation"`
	ReplicaChanges int     `json:"replica_changes"`
	RequestChanges int     `json:"request_changes"`
	// The most changes of each kind in any hour, the warm-up's included.
	MostReplicaChanges int `json:"most_replica_changes"`
	MostRequestChanges int `json:"most_request_changes"`
	// Containers that ran out of memory, and pods that made room for larger ones.
	Kills        int     `json:"oom_kills"`
	Evictions    int     `json:"evictions"`
	MeanReplicas float64 `json:"mean_replicas"`
	Tries        int64   `json:"tries"`
}

// tick is how often pods change their state, in seconds.
const tick = .5

// siteStream is the stream of random numbers of the site: delays and scrapes. The engine
// has the first.
const siteStream = 1

// epoch is the simulation's second 0 for agents that go by the time of day.
var epoch = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// simulation is a Config that runs.
type simulation struct {
	cfg       *Config
	e         *loadsim.Engine
	pods      []*instance
	replicas  int32
	requests  []mpa.Resources // of new pods; one container
	made      int
	rng       *rand.Rand      // of the site: delays and scrapes
	changes   [2]window       // of replicas and of requests
	free      []mpa.Resources // of each node
	control   *mpa.Controller
	scrapes   []scrape
	decisions func(*mpa.Observation, mpa.Decision)

	result           Result
	minute           loadsim.Latencies
	minuteFailed     int64
	busy, memorySecs float64
	before           sums // the last minute
}

// sums of what was counted up to a time; a minute is the difference of two.
type sums struct{ hours, coreHours, gibHours, busy, memorySecs, arrived float64 }

// An instance is a pod of the cluster.
type instance struct {
	loadsim.Pod
	name    string
	slot    int32 // in the engine, −1 = takes no requests
	node    int   // −1 = none has room
	request mpa.Resources
	actual  mpa.Resources
	due     float64 // of what it waits for: start, resize, end
	created float64
	started float64 // −1 = not yet
	ready   float64 // since when; −1 = not ready
	ending  bool
	resize  mpa.Resize
	since   float64
	killed  float64 // −1 = never
	crashes int     // in a row
	seen    []usageSeen
	base    int64 // served before the last restart
}

type usageSeen struct{ at, busy, memory float64 }

// A scrape is what was measured of the workload as a whole since the one before.
type scrape struct {
	at              float64
	arrived, served int64
	latencies       *loadsim.Latencies
}

// Run simulates. The error is of a bad configuration, or the context's.
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
	control, err := mpa.NewController(cfg.App.Target, cfg.Agent, cfg.Guards)
	if err != nil {
		return nil, err
	}
	s := &simulation{
		cfg: cfg, control: control, replicas: cfg.App.Replicas,
		requests: []mpa.Resources{cfg.App.Request}, free: slices.Clone(cfg.Site.Nodes),
		e: loadsim.New(&cfg.App.Service, cfg.Seed, cfg.Load.Arrivals(cfg.Seed)), rng: rand.New(rand.NewPCG(cfg.Seed, siteStream)),
	}
	s.e.Window = &loadsim.Latencies{}
	s.e.Failed = func() { s.minuteFailed++ }
	s.e.Answered = func(latency float64) { s.minute.Add(latency) }
	s.match()
	// The workload stands when the simulation begins.
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

// turn lets pods come and go.
func (s *simulation) turn(now float64) {
	for i := 0; i < len(s.pods); i++ {
		p := s.pods[i]
		switch {
		case p.node < 0:
			s.place(p, now)
		case p.ending:
			if p.Inside()+p.Waiting() == 0 || now >= p.due {
				s.remove(p)
				s.pods = slices.Delete(s.pods, i, i+1)
				i--
			}
		case p.ready < 0:
			if p.started >= 0 {
				s.advanceResize(p, now)
			}
			if now >= p.due {
				p.ready = now
				if p.started < 0 {
					p.started = now
				}
				s.open(p)
			}
		default:
			s.advanceResize(p, now)
			if limit := s.memoryLimit(p); s.memory(p) > limit {
				s.outOfMemory(p, now)
			}
			if s.mayEvict(p, now) {
				s.evict(p, now)
			}
		}
	}
}

// memory of a pod in bytes.
func (s *simulation) memory(p *instance) float64 {
	return s.cfg.App.memory(float64(p.Served()-p.base), float64(p.Inside()))
}

func (s *simulation) memoryLimit(p *instance) float64 {
	return float64(p.actual.Memory) * s.cfg.App.limitRatio()
}

// outOfMemory restarts a pod's container: the first time at once, then after pauses that
// double up to five minutes, until it has run for ten.
func (s *simulation) outOfMemory(p *instance, now float64) {
	s.result.Kills++
	s.e.Close(p.slot)
	s.e.Kill(p.slot)
	s.e.Forget(p.slot)
	p.slot = -1
	pause := 0.0
	if now-p.ready > 600 {
		p.crashes = 0
	} else if p.crashes > 0 {
		pause = min(300, 10*math.Exp2(float64(p.crashes-1)))
	}
	p.crashes++
	p.killed, p.ready, p.base, p.seen = now, -1, p.Served(), nil
	p.due = now + pause + s.draw(s.cfg.Site.Start)
}

func (s *simulation) draw(d loadsim.Dist) float64 { return d.Draw(s.rng) }

// mayEvict reports whether a resize has waited long enough, another node has the room
// and no other pod is on its way.
func (s *simulation) mayEvict(p *instance, now float64) bool {
	after := s.cfg.Site.EvictAfter
	if p.resize != mpa.Deferred || after == 0 || now < p.since+after {
		return false
	}
	ready := 0
	for _, o := range s.pods {
		if o.ready < 0 {
			return false
		}
		if !o.ending {
			ready++
		}
	}
	return ready > 1 && slices.ContainsFunc(s.free, func(free mpa.Resources) bool {
		return free.CPU >= p.request.CPU && free.Memory >= p.request.Memory
	})
}

// evict ends a pod; another comes in its place.
func (s *simulation) evict(p *instance, now float64) {
	s.result.Evictions++
	p.ending, p.due = true, now+s.cfg.Site.Grace
	s.e.Close(p.slot)
	s.match()
}

// open lets a pod take requests.
func (s *simulation) open(p *instance) {
	s.apply(p)
	p.slot = s.e.Open(&p.Pod)
}

// apply sets what the pod has to compute with.
func (s *simulation) apply(p *instance) {
	p.Cores, p.Workers, p.Quantum = s.cfg.App.Cores(), s.cfg.App.Workers, s.cfg.App.Quantum
	p.Quota = float64(p.actual.CPU) / 1000 * s.cfg.App.limitRatio()
}

// match makes the number of pods that which is asked for: new ones, or the youngest
// go.
func (s *simulation) match() {
	var alive []*instance
	for _, p := range s.pods {
		if !p.ending {
			alive = append(alive, p)
		}
	}
	for n := len(alive); n < int(s.replicas); n++ {
		p := &instance{
			name: fmt.Sprintf("%s-%05d", s.cfg.App.Name, s.made), slot: -1, node: -1, created: s.e.Now(),
			request: s.requests[0], actual: s.requests[0], started: -1, ready: -1, killed: -1,
		}
		s.made++
		s.pods = append(s.pods, p)
		s.place(p, s.e.Now())
	}
	// Those that are not ready first, then the youngest.
	slices.SortStableFunc(alive, func(a, b *instance) int {
		if (a.ready < 0) != (b.ready < 0) {
			if a.ready < 0 {
				return -1
			}
			return 1
		}
		return int(math.Copysign(1, b.created-a.created))
	})
	for i := 0; len(alive)-i > int(s.replicas); i++ {
		p := alive[i]
		p.ending, p.due = true, s.e.Now()+s.cfg.Site.Grace
		if p.slot >= 0 {
			s.e.Close(p.slot)
		}
	}
}

// place finds a node for a pod: the first with room.
func (s *simulation) place(p *instance, now float64) {
	if p.ending {
		p.node = len(s.free) // nothing to give back
		return
	}
	for i, free := range s.free {
		if free.CPU >= p.request.CPU && free.Memory >= p.request.Memory {
			s.free[i] = subtract(free, p.request)
			p.node = i
			p.due = now + s.draw(s.cfg.Site.Start)
			return
		}
	}
}

func subtract(a, b mpa.Resources) mpa.Resources {
	return mpa.Resources{CPU: a.CPU - b.CPU, Memory: a.Memory - b.Memory}
}

// remove ends a pod.
func (s *simulation) remove(p *instance) {
	if p.slot >= 0 {
		s.e.Kill(p.slot)
		s.e.Forget(p.slot)
		s.busy += p.Busy()
	}
	if p.node >= 0 && p.node < len(s.free) {
		s.free[p.node] = s.free[p.node].Add(p.actual.Max(p.held()))
	}
}

// held is what a pod holds of its node.
func (p *instance) held() mpa.Resources {
	if p.resize == mpa.InProgress {
		return p.request.Max(p.actual)
	}
	return p.actual
}

// advanceResize moves a resize on, as a kubelet does.
func (s *simulation) advanceResize(p *instance, now float64) {
	if p.request == p.actual {
		p.resize = mpa.NoResize
		return
	}
	state := func(r mpa.Resize) {
		if p.resize != r {
			p.resize, p.since = r, now
		}
	}
	node := s.cfg.Site.Nodes[p.node]
	switch {
	case p.resize == mpa.InProgress:
		if now < p.due || float64(p.request.Memory)*s.cfg.App.limitRatio() < s.memory(p) {
			return // under way, or a limit below what is in use
		}
		// The node gets back what is no longer held.
		s.free[p.node] = s.free[p.node].Add(subtract(p.held(), p.request))
		p.actual = p.request
		p.Advance(s.e.Now())
		s.apply(p)
		if p.slot >= 0 {
			s.e.Update(p.slot)
		}
		state(mpa.NoResize)
	case p.request.CPU > node.CPU || p.request.Memory > node.Memory:
		state(mpa.Infeasible)
	default:
		more := subtract(p.request.Max(p.actual), p.actual)
		if free := s.free[p.node]; more.CPU > free.CPU || more.Memory > free.Memory {
			state(mpa.Deferred)
			return
		}
		s.free[p.node] = subtract(s.free[p.node], more)
		state(mpa.InProgress)
		p.due = now + s.draw(s.cfg.Site.Resize)
	}
}

// account adds a tick of what is held.
func (s *simulation) account() {
	for _, p := range s.pods {
		if p.node < 0 || p.node >= len(s.free) {
			continue
		}
		held := p.held()
		s.result.CoreHours += float64(held.CPU) / 1000 * tick / 3600
		s.result.GiBHours += float64(held.Memory) / (1 << 30) * tick / 3600
		s.memorySecs += s.memory(p) / (1 << 30) * tick / 3600
	}
	s.result.MeanReplicas += float64(s.replicas)
	s.result.Hours += tick / 3600
}

func (s *simulation) endMinute(now float64, counting bool) {
	slo := s.cfg.App.Target.SLO
	violated := false
	if slo.Latency > 0 && s.minute.Count()+s.minuteFailed > 0 {
		share := float64(s.minuteFailed) / float64(s.minute.Count()+s.minuteFailed)
		violated = s.minute.Percentile(slo.Percentile) > slo.Latency || share > 1-slo.Percentile/100
	}
	if violated {
		s.result.ViolatingMinutes++
	}
	if s.cfg.Record != nil && counting {
		s.record(now, violated)
	}
	s.minute, s.minuteFailed = loadsim.Latencies{}, 0
}

func (s *simulation) record(now float64, violated bool) {
	sum, before := s.sums(now), s.before
	hours := sum.hours - before.hours
	m := Minute{
		Time: now, Rate: (sum.arrived - before.arrived) / hours / 3600, Replicas: s.replicas, Ready: s.e.Ready(),
		CPU: (sum.coreHours - before.coreHours) / hours, CPUUsed: (sum.busy - before.busy) / hours / 3600,
		Memory:     (sum.gibHours - before.gibHours) / hours * (1 << 30),
		MemoryUsed: (sum.memorySecs - before.memorySecs) / hours * (1 << 30),
		P50:        s.minute.Percentile(50), P95: s.minute.Percentile(95), P99: s.minute.Percentile(99), Violated: violated,
	}
	s.before = sum
	s.cfg.Record(m)
}

// sums up to now, of which pods are not told: it would change their rounding.
func (s *simulation) sums(now float64) sums {
	busy := s.busy
	for _, p := range s.pods {
		busy += p.BusyAt(now)
	}
	return sums{s.result.Hours, s.result.CoreHours, s.result.GiBHours, busy, s.memorySecs, float64(s.e.Counters().Arrived)}
}

// scrape measures.
func (s *simulation) scrape(now float64) {
	for _, o := range s.cfg.Site.Outages {
		if now >= o[0] && now < o[1] {
			return
		}
	}
	for _, p := range s.pods {
		if s.rng.Float64() < s.cfg.Site.Miss || p.ready < 0 {
			continue // of a container that does not run nothing is measured
		}
		p.Advance(now)
		p.seen = append(p.seen, usageSeen{now, p.Busy(), s.memory(p)})
		if n := int(s.cfg.Site.Window/s.cfg.Site.Scrape) + 3; len(p.seen) > n {
			p.seen = slices.Delete(p.seen, 0, len(p.seen)-n)
		}
	}
	s.scrapes = append(s.scrapes, scrape{now, s.e.Counters().Arrived, s.e.Counters().Served, s.e.Window})
	s.e.Window = &loadsim.Latencies{}
	if n := int(s.cfg.Site.Window/s.cfg.Site.Scrape) + 3; len(s.scrapes) > n {
		s.scrapes = slices.Delete(s.scrapes, 0, len(s.scrapes)-n)
	}
}

func at(seconds float64) time.Time {
	return epoch.Add(time.Duration(math.Round(seconds * 1e9)))
}

// observe is what a controller in a cluster would see.
func (s *simulation) observe(now float64) *mpa.Observation {
	o := &mpa.Observation{Time: at(now), Replicas: s.replicas}
	until := now - s.cfg.Site.Lag
	for _, p := range s.pods {
		pod := mpa.Pod{Name: p.name, Phase: mpa.Pending, Deleting: p.ending, Resize: p.resize}
		if p.resize != mpa.NoResize {
			pod.ResizeSince = at(p.since)
		}
		if p.started >= 0 {
			pod.Phase, pod.Started, pod.Ready, pod.ReadySince = mpa.Running, at(p.started), p.ready >= 0, at(max(p.ready, p.killed))
		}
		c := mpa.Container{Name: s.cfg.App.Target.Containers[0].Name, Request: p.request, Actual: p.actual}
		if p.killed >= 0 {
			c.Killed = at(p.killed)
		}
		if last, first, ok := span(p.seen, func(u usageSeen) float64 { return u.at }, until, s.cfg.Site.Window); ok {
			c.Usage = mpa.Usage{
				Resources: mpa.Resources{
					CPU:    int64(1000 * (last.busy - first.busy) / (last.at - first.at)),
					Memory: int64(last.memory),
				},
				Time: at(last.at), Window: time.Duration((last.at - first.at) * 1e9),
			}
		}
		pod.Containers = []mpa.Container{c}
		o.Pods = append(o.Pods, pod)
	}
	if last, first, ok := span(s.scrapes, func(c scrape) float64 { return c.at }, until, s.cfg.Site.Window); ok {
		length := last.at - first.at
		o.Rate = mpa.Metric{Value: float64(last.arrived-first.arrived) / length, Time: at(last.at)}
		o.Throughput = mpa.Metric{Value: float64(last.served-first.served) / length, Time: at(last.at)}
		var sum loadsim.Latencies
		for _, c := range s.scrapes {
			if c.at > first.at && c.at <= last.at {
				sum.Merge(c.latencies)
			}
		}
		if sum.Count() > 0 {
			o.Latency = mpa.Metric{Value: sum.Percentile(s.cfg.App.Target.SLO.Percentile), Time: at(last.at)}
		}
	}
	return o
}

// span finds the last measurement up to a time and the one a window before, or the
// first there is.
func span[T any](list []T, when func(T) float64, until, window float64) (last, first T, ok bool) {
	i := len(list) - 1
	for i >= 0 && when(list[i]) > until {
		i--
	}
	if i < 1 {
		return last, first, false
	}
	j := i - 1
	for j > 0 && when(list[i])-when(list[j]) < window {
		j--
	}
	return list[i], list[j], true
}

// decide asks the controller, or the plan, and does what it says.
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
		s.requests = c
		s.result.RequestChanges++
		s.changes[1].add(now)
		for _, p := range s.pods {
			if !p.ending {
				s.ask(p, c[0])
			}
		}
	}
	if n := d.Action.Replicas; n != 0 {
		s.replicas = n
		s.result.ReplicaChanges++
		s.changes[0].add(now)
		s.match()
	}
}

// ask gives a pod a new request: one that runs is resized; one that does not yet has
// it at once, as the admission webhook would see to.
func (s *simulation) ask(p *instance, request mpa.Resources) {
	if p.node >= 0 && p.resize == mpa.InProgress {
		s.free[p.node] = s.free[p.node].Add(subtract(p.held(), p.actual))
		p.resize = mpa.NoResize
	}
	p.request = request
	switch {
	case p.node < 0:
		p.actual = request
		s.place(p, s.e.Now())
	case p.started < 0:
		s.free[p.node] = s.free[p.node].Add(p.actual)
		p.actual = request
		if free := s.free[p.node]; free.CPU >= request.CPU && free.Memory >= request.Memory {
			s.free[p.node] = subtract(free, request)
			return
		}
		p.node = -1
		s.place(p, s.e.Now())
	}
}

// A window counts what happens in an hour.
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
	for _, p := range s.pods {
		s.busy += p.Busy()
	}
	r.CPUUtilisation = s.busy / 3600 / r.CoreHours
	r.MemUtilisation = s.memorySecs / r.GiBHours
	r.MeanReplicas *= tick / 3600 / r.Hours
	r.MostReplicaChanges, r.MostRequestChanges = s.changes[0].most, s.changes[1].most
}
