package contest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// Config is one comparison.
type Config struct {
	Learners []string // with Fixed and Best
	// Profiles to draw, from the first seed on, and runs of each.
	Profiles, Runs int
	First          uint64
	// Trials of a run, and of it again after its pod has changed.
	Trials int
	// Noise is the relative deviation of what one window measures.
	Noise float64
	// ByInterval lets a trial go on until its throughput is known; else it is one window.
	ByInterval bool
	// Limits that may be tried, ascending, and the one of the first trial.
	Limits  []int
	Initial int
	Workers int
	// Done, if set, is called after each profile.
	Done func(int)
}

// Best is the name of the limit that knows the profile. A name "fixed:N" is a limit that
// stays.
const Best = "best"

// A Run is one learner on one profile.
type Run struct {
	Profile  string  `json:"profile"`
	Kind     string  `json:"kind"`
	Found    int     `json:"found"`              // trials until it stayed near the best; 0 = it did not
	Lost     float64 `json:"lost"`               // share of the throughput, in all trials
	Failing  int     `json:"failing"`            // trials that killed the pod
	Excess   float64 `json:"excess"`             // its last limit ÷ the smallest good one
	Back     int     `json:"back"`               // as Found, after the change; 0 = it did not
	Killing  int     `json:"killing"`            // as Failing, after the change
	NoChange bool    `json:"noChange,omitempty"` // no limit is good after the change
	Windows  int     `json:"windows"`
	Limits   []int   `json:"limits,omitempty"` // tried, of the first run of a profile
	shares   []float64
}

// A Result is one learner on all profiles.
type Result struct {
	Learner string `json:"learner"`
	Runs    []Run  `json:"runs"`
	// Curve is the mean over runs of the throughput ÷ the best, trial by trial, the change
	// included.
	Curve []float64 `json:"curve"`
}

// Comparison is the outcome.
type Comparison struct {
	Config   Config   `json:"-"`
	Results  []Result `json:"results"`
	Hopeless int      `json:"hopeless"` // profiles that no limit suits
}

// Compare runs all learners on all profiles. The result does not depend on the workers.
func Compare(ctx context.Context, c Config) (*Comparison, error) {
	if len(c.Limits) == 0 || c.Profiles < 1 || c.Runs < 1 || c.Trials < 1 {
		return nil, fmt.Errorf("want limits, profiles, runs and trials")
	}
	for _, name := range c.Learners {
		if _, err := c.learner(name, 1, 1); err != nil {
			return nil, err
		}
	}
	type part struct {
		runs [][]Run // by learner
	}
	parts := make([]part, c.Profiles)
	var wait sync.WaitGroup
	next := make(chan int)
	var done sync.Mutex
	finished := 0
	for range max(1, c.Workers) {
		wait.Go(func() {
			for i := range next {
				parts[i].runs = c.profile(ctx, c.First+uint64(i))
				done.Lock()
				if finished++; c.Done != nil {
					c.Done(finished)
				}
				done.Unlock()
			}
		})
	}
	for i := range c.Profiles {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := &Comparison{Config: c}
	for k, name := range c.Learners {
		r := Result{Learner: name}
		for i := range parts {
			if parts[i].runs != nil {
				r.Runs = append(r.Runs, parts[i].runs[k]...)
			}
		}
		r.average(2 * c.Trials)
		out.Results = append(out.Results, r)
	}
	for i := range parts {
		if parts[i].runs == nil {
			out.Hopeless++
		}
	}
	return out, nil
}

// average makes the curve of the runs that have all trials.
func (r *Result) average(trials int) {
	r.Curve = make([]float64, trials)
	count := 0.0
	for _, run := range r.Runs {
		if len(run.shares) == trials {
			count++
		}
	}
	for _, run := range r.Runs {
		for i := range r.Curve {
			if len(run.shares) == trials {
				r.Curve[i] += run.shares[i] / count
			}
		}
	}
}

// learner makes one by its name.
func (c *Config) learner(name string, seed uint64, best int) (capacity.Learner, error) {
	s := capacity.Settings{Min: c.Limits[0], Max: c.Limits[len(c.Limits)-1], Grid: c.Limits, Seed: seed}
	s.Initial = c.Initial
	if c.ByInterval {
		s.Noise = interval / 1.96
	}
	if name == Best {
		return constant(best), nil
	}
	if limit, ok := strings.CutPrefix(name, "fixed:"); ok {
		n, err := strconv.Atoi(limit)
		if most := c.Limits[len(c.Limits)-1]; err != nil || n < 1 || n > most {
			return nil, fmt.Errorf("learner %q: want fixed:1 to fixed:%d", name, most)
		}
		return constant(n), nil
	}
	s.Unguarded = name == "paper" // it has none
	return capacity.New(name, s)
}

// constant is a limit that stays.
type constant int

func (c constant) Next() int            { return int(c) }
func (c constant) Tell(capacity.Window) {}
func (c constant) Estimate() (capacity.Capacity, bool) {
	return capacity.Capacity{Limit: int(c)}, true
}

// profile runs every learner on a profile; nil where no limit suits it.
func (c *Config) profile(ctx context.Context, seed uint64) [][]Run {
	p := Draw(seed)
	if best, _ := p.Best(c.Limits, c.Initial); best == 0 {
		return nil
	}
	runs := make([][]Run, len(c.Learners))
	for k, name := range c.Learners {
		for r := range c.Runs {
			if ctx.Err() != nil {
				return runs
			}
			runs[k] = append(runs[k], c.run(p, name, seed*1000+uint64(r), r == 0))
		}
	}
	return runs
}

// change is by how much requests become larger, or smaller in every other run.
const change = 3

func (c *Config) run(p *Profile, name string, seed uint64, keep bool) Run {
	_, smallest := p.Best(c.Limits, c.Initial)
	l, err := c.learner(name, seed, smallest)
	if err != nil {
		panic(err) // Compare has made one
	}
	factor := float64(change)
	if seed%2 == 1 {
		factor = 1. / change
	}
	q := p.Changed(factor)
	_, again := q.Best(c.Limits, c.Initial)
	w := world{rng: rand.New(rand.NewPCG(seed, 7)), cfg: c}
	out := Run{Profile: p.String(), Kind: p.Kind}
	var tried []int
	first := w.stretch(p, l, &tried)
	out.Found, out.Lost, out.Failing, out.Windows = first.found, first.lost, first.failing, w.windows
	out.Excess = float64(first.limit) / float64(smallest)
	if again == 0 {
		out.NoChange = true
	} else {
		if name == Best {
			l = constant(again)
		}
		second := w.stretch(q, l, &tried)
		out.Back, out.Killing = second.found, second.failing
		out.shares = slices.Concat(first.shares, second.shares)
	}
	if keep {
		out.Limits = tried
	}
	return out
}

// interval is half of the 95 % interval of a trial that ends by it, as a share.
const interval = .03

// world gives windows of a pod.
type world struct {
	rng     *rand.Rand
	cfg     *Config
	windows int
	seconds int
}

type outcome struct {
	found, failing, limit int
	lost                  float64
	shares                []float64
}

// stretch runs the trials on one profile.
func (w *world) stretch(p *Profile, l capacity.Learner, tried *[]int) outcome {
	best, smallest := p.Best(w.cfg.Limits, w.cfg.Initial)
	var o outcome
	stays := 0
	for i := 1; i <= w.cfg.Trials; i++ {
		n := l.Next()
		*tried = append(*tried, n)
		window := w.trial(p, n)
		l.Tell(window)
		x := 0.0
		if p.Fails(n) {
			o.failing++
		} else {
			x = p.Throughput(n)
		}
		o.shares = append(o.shares, min(1, x/best))
		o.lost += (1 - min(1, x/best)) / float64(w.cfg.Trials)
		c, ok := l.Estimate()
		switch {
		case !ok || p.Fails(c.Limit) || p.Throughput(c.Limit) < good*best:
			stays = 0
		case stays == 0:
			stays = i
		}
		o.limit = c.Limit
	}
	if smallest == 0 {
		stays = 0
	}
	o.found = stays
	return o
}

// trial measures at a limit: one window, or as many as its throughput takes.
func (w *world) trial(p *Profile, n int) capacity.Window {
	if !w.cfg.ByInterval {
		return w.window(p, n, 30)
	}
	t := capacity.Trial{Interval: interval, Longest: 120 * time.Second}
	for {
		whole, done, err := t.Add(w.window(p, n, 1))
		if err != nil {
			panic(err) // world makes sound windows
		}
		if done {
			return whole
		}
	}
}

// window of some seconds. Throughput and cpu have independent noise; a pod that is killed
// answers a third of its requests, as its throughput alternates with starts.
func (w *world) window(p *Profile, n int, seconds float64) capacity.Window {
	w.windows++
	w.seconds += int(seconds)
	noise := func(sigma float64) float64 { return math.Exp(sigma*w.rng.NormFloat64() - sigma*sigma/2) }
	x := p.Throughput(n) * noise(w.cfg.Noise)
	cpu := p.Throughput(n) * p.demand(n) * noise(w.cfg.Noise) * seconds
	out := capacity.Window{
		Time: time.Unix(int64(w.seconds), 0).UTC(), Length: capacity.Some(seconds), Limit: capacity.Some(float64(n)),
		Inside: capacity.Some(float64(n)), Answered: capacity.Some(x * seconds), Failed: capacity.Some(0),
		CPU: capacity.Some(min(p.Network.Cores*seconds, cpu)), Quota: capacity.Some(p.Network.Cores),
		Memory: capacity.Some(min(1, p.Memory(n)*noise(.01)) * (256 << 20)), MemoryLimit: capacity.Some(256 << 20),
	}
	if p.Fails(n) {
		out.Failed = out.Answered
		out.Answered = capacity.Some(x * seconds / 3)
		out.Memory = out.MemoryLimit
	}
	return out
}

// order of a list of trials in which 0 is never.
func quantile(found []int, p float64) float64 {
	if len(found) == 0 {
		return math.NaN()
	}
	values := make([]float64, 0, len(found))
	for _, f := range found {
		if f == 0 {
			values = append(values, math.Inf(1))
		} else {
			values = append(values, float64(f))
		}
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(math.Ceil(p*float64(len(values))))-1)]
}
