package sim

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// GiBPerCore is the number of GiB-hours that cost as much as a core-hour. The on-demand
// prices of the large clouds give 7 to 9.
const GiBPerCore = 8

// Cost returns the cost of the requested resources, in core-hours.
func (r *Result) Cost() float64 { return r.CoreHours + r.GiBHours/GiBPerCore }

// Kept reports whether at most as many requests were late or lost as the percentile of the
// SLO allows.
func (r *Result) Kept(slo mpa.SLO) bool {
	return float64(r.Violations) <= (1-slo.Percentile/100)*float64(r.Requests)
}

// A Plan is an oracle's rule. At each of the controller's intervals it has the present
// workload, the future rate of arrivals, the cost of a request and all delays, and sets
// replicas, cpu and memory at once. Only the bounds of the target limit it: no guard, no
// window, no lag. It does not have the single future requests.
type Plan struct {
	// Size is the largest pod in millicores; the plan uses as few pods as that allows.
	Size int64
	// Slack is β of the square-root rule: a pod with l cores of work gets l + β·√l.
	Slack float64
	// Room is for requests in a pod beyond the expected number, in square roots of it.
	Room float64
}

// decide returns the plan's decision.
func (p *Plan) decide(s *simulation, o *mpa.Observation) mpa.Decision {
	app, site, now := &s.cfg.App, &s.cfg.Site, s.e.Now()
	demand := app.CPUPerRequest()
	bounds := app.Target.Replicas
	work := s.most(now, site.Interval+longest(site.Start)) * demand
	n := bounds.Min
	for n < bounds.Max && p.cores(work/float64(n)) > p.most(app) {
		n++
	}
	soon := s.most(now, site.Interval+longest(site.Resize))
	inside, ready := s.inside()
	pods := float64(max(1, min(ready, int(n))))
	// A backlog beyond the usual is to be served until the next decision.
	usual := soon * (demand + app.WaitPerRequest())
	late := max(0, inside-2*usual) * demand / site.Interval
	request := mpa.Resources{
		CPU:    int64(1000 * min(p.most(app), p.cores((soon*demand+late)/pods)) / app.limitRatio()),
		Memory: int64(p.memory(s, soon*site.Interval/pods, usual/pods) / app.limitRatio()),
	}
	request = app.Target.Containers[0].Clamp(request)
	d := mpa.Decision{Time: o.Time, Reason: fmt.Sprintf("%.4g requests/s soon", soon)}
	d.Recommended = mpa.Recommendation{Replicas: n, Containers: []mpa.Resources{request}, Source: "oracle", Reason: d.Reason}
	if n == s.replicas && request == s.requests[0] {
		return d
	}
	d.Action = &mpa.Action{}
	if n != s.replicas {
		d.Action.Replicas = n
	}
	if request != s.requests[0] {
		d.Action.Containers = []mpa.Resources{request}
	}
	return d
}

// cores returns the size of a pod for some cores of work.
func (p *Plan) cores(work float64) float64 { return work + p.Slack*math.Sqrt(work) }

// most cores of a pod.
func (p *Plan) most(app *App) float64 { return float64(p.Size) / 1000 * app.limitRatio() }

// memory returns the bytes that no pod should exceed until the next decision.
func (p *Plan) memory(s *simulation, requests, usual float64) float64 {
	most := 0.0
	for _, pod := range s.pods {
		inside := max(usual, float64(pod.Inside()+pod.Waiting()))
		inside += p.Room * (1 + math.Sqrt(inside))
		if w := float64(s.cfg.App.Workers); w > 0 {
			inside = min(inside, w)
		}
		most = max(most, s.cfg.App.memory(float64(pod.Served()-pod.base)+requests, inside))
	}
	return most
}

// longest returns a time that few samples exceed.
func longest(d loadsim.Dist) float64 { return d.Mean * (1 + 2*d.CV) }

// most returns the largest rate in a span from now on.
func (s *simulation) most(now, span float64) float64 {
	most := 0.0
	for t := now; t <= now+span; {
		rate, until := s.cfg.Load.Rate(t)
		most = max(most, rate)
		t = until
	}
	return most
}

// inside returns how many requests are in pods, and how many pods take more.
func (s *simulation) inside() (requests float64, ready int) {
	for _, p := range s.pods {
		requests += float64(p.Inside() + p.Waiting())
		if p.ready >= 0 && !p.ending {
			ready++
		}
	}
	return requests, ready
}

const (
	slackLeast, slackGrowth = .02, 1.2
	slackSteps              = 32 // up to 7 √cores
	// planSeed turns a seed into that of a plan's first trial.
	planSeed   = 1 << 40
	planTrials = 2
	// planShare is the share of the violations that the SLO allows which a plan may use: the
	// run that counts has another seed.
	planShare = .85
)

// BestPlan returns the cheapest plan that keeps the SLO without a kill, on seeds of its own.
// It tries sizes from the largest down while that saves something, each with the least
// slack, and then several rooms. If no plan keeps the SLO, it returns the one with the
// fewest violations.
func BestPlan(ctx context.Context, cfg Config) (Plan, error) {
	if err := cfg.App.prepare(); err != nil {
		return Plan{}, err
	}
	cfg.Seed, cfg.Record, cfg.Decided = cfg.Seed^planSeed, nil, nil
	// An hour of warm-up is enough: a plan does not learn.
	if skip := cfg.Warmup - 3600; skip > 0 && cfg.Seconds <= float64(len(cfg.Load.PerSec))*cfg.Load.Step {
		var err error
		if cfg.Load, err = cfg.Load.From(skip); err != nil {
			return Plan{}, err
		}
		cfg.Warmup, cfg.Seconds = 3600, cfg.Seconds-skip
	}
	search := planSearch{ctx: ctx, cfg: cfg}
	for _, size := range planSizes(&cfg) {
		better, err := search.slack(size, 24)
		if err != nil {
			return Plan{}, err
		}
		if !better {
			break
		}
	}
	for _, room := range []float64{80, 12} {
		if _, err := search.slack(search.best.Size, room); err != nil {
			return Plan{}, err
		}
	}
	return search.best, nil
}

// planSizes returns the sizes to try, in millicores.
func planSizes(cfg *Config) []int64 {
	bounds := cfg.App.Target.Containers[0]
	most := int64(0)
	for _, n := range cfg.Site.Nodes {
		most = max(most, n.CPU)
	}
	if bounds.Max.CPU > 0 {
		most = min(most, bounds.Max.CPU)
	}
	most = min(most, int64(1000*cfg.App.Cores()/cfg.App.limitRatio()))
	var list []int64
	for size := most; size >= max(1, bounds.Min.CPU) && len(list) < 6; size /= 2 {
		list = append(list, size)
	}
	return list
}

// planSearch remembers the best plan so far.
type planSearch struct {
	ctx  context.Context
	cfg  Config
	best Plan
	cost float64 // of the best; its violations if it does not keep the SLO
	kept bool
}

// slack finds the least slack that keeps the SLO, and reports whether that gives a better
// plan. More slack never adds violations, so bisection finds it.
func (f *planSearch) slack(size int64, room float64) (better bool, err error) {
	low, high := 0, slackSteps
	for low < high {
		mid := (low + high) / 2
		kept, improved, err := f.try(Plan{size, slackLeast * math.Pow(slackGrowth, float64(mid)), room})
		if err != nil {
			return false, err
		}
		better = better || improved
		if kept {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return better, nil
}

// try runs a plan, and again with another seed if it keeps the SLO.
func (f *planSearch) try(p Plan) (kept, better bool, err error) {
	trial := f.cfg
	trial.Plan = &p
	var cost float64
	for range planTrials {
		r, err := Run(f.ctx, trial)
		if err != nil {
			return false, false, err
		}
		kept = r.Kills == 0 && float64(r.Violations) <= planShare*(1-f.cfg.App.Target.SLO.Percentile/100)*float64(r.Requests)
		if !kept {
			cost = float64(r.Violations)
			break
		}
		cost += r.Cost() / planTrials
		trial.Seed++
	}
	if f.best.Size == 0 || kept && !f.kept || kept == f.kept && cost < f.cost {
		f.best, f.cost, f.kept, better = p, cost, kept, true
	}
	return kept, better, nil
}

// Agents returns the names that [RunAgent] takes, in the order of a comparison: those of a
// cluster, and those that are given the application or the load.
func Agents() []string {
	list := agents.Names()
	list = slices.Insert(list, slices.Index(list, "static")+1, "static-p99")
	list = slices.Insert(list, slices.Index(list, "vpa"), "hpa-rps")
	return append(list, "oracle")
}

// RunAgent simulates an agent by name. It ignores the agent and the plan of the
// configuration.
func RunAgent(ctx context.Context, cfg Config, agent string) (Result, error) {
	if err := cfg.App.prepare(); err != nil {
		return Result{}, err
	}
	cfg.Plan = nil
	cfg.Gates = cfg.Gates || slices.Contains(agents.GatedNames(), agent)
	var err error
	switch agent {
	case "oracle":
		var p Plan
		p, err = BestPlan(ctx, cfg)
		cfg.Plan = &p
	case "static-p99":
		cfg.Agent = agents.Static{}
		cfg.App.Replicas = cfg.provision(.99)
	case "hpa-rps":
		cfg.Agent = agents.NewRateHPA(cfg.App.Target, cfg.ratePerPod())
	default:
		cfg.Agent, err = agents.Make(mpa.Spec{Name: agent}, cfg.App.Target, nil)
	}
	if err != nil {
		return Result{}, err
	}
	return Run(ctx, cfg)
}

// knownUtilisation is the target of agents that are given the cost of a request but not its
// latency: a rule of thumb for load tests.
const knownUtilisation = .6

// ratePerPod returns the rate that a load test of one pod of the start size would suggest.
func (c *Config) ratePerPod() float64 {
	return knownUtilisation * float64(c.App.Request.CPU) / 1000 / c.App.CPUPerRequest()
}

// provision returns how many pods of the start size the p-th percentile of minutes needs.
func (c *Config) provision(p float64) int32 {
	var rates []float64
	for t := c.Warmup; t < c.Seconds; t += 60 {
		rate, _ := c.Load.Rate(t)
		rates = append(rates, rate)
	}
	slices.Sort(rates)
	n := int32(math.Ceil(rates[int(p*float64(len(rates)-1))] / c.ratePerPod()))
	return c.App.Target.Replicas.Clamp(n)
}
