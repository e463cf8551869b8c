package generate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// kubernetes is a small cluster as a snapshot has it: Deployments that scale over
// the day and roll out, and cron jobs. One pod is one request.
var kubernetes = Kind{
	Name: "kubernetes",
	Help: "a small Kubernetes cluster: Deployments that scale over the day and roll out, and cron jobs; measured from hour 24",
	Params: append([]Param{
		{Name: "nodes", Max: 5000, Integer: true, Help: "nodes that the declared replicas fill by volume; 0: drawn from 20 to 200"},
		{Name: "days", Default: 2, Min: .1, Max: 60, Help: "length; time integrals start after one day, or half-way if that is earlier"},
		{
			Name: "fleet", Words: []string{"one", "open", "fixed"},
			Help: "one: elastic, one node size; open: elastic, 2 or 3 sizes; fixed: as many nodes of 2 or 3 sizes as hold f times the peak volume",
		},
		{Name: "f", Max: 10, Help: "node volume ÷ peak volume of fleet=fixed; 0: drawn from 1.01 to 1.1"},
		{Name: "gpus", Max: 1, Help: "share of the Deployments that ask for GPUs; they run on nodes of their own"},
		{Name: "soft", Max: 1, Unstated: true, Help: "share of the Deployments whose pods prefer different nodes, an even spread over zones (without zones: nodes), or both"},
		{Name: "zones", Max: 9, Integer: true, Unstated: true, Help: "zones, with nodes of every size; 0: none"},
		{Name: "limited", Max: 1, Unstated: true, Help: "share of the Deployments with one pod a node, each with at most .5 to 2 times as many pods as the volume needs nodes; 0: .15, at most half as many"},
		{Name: "pods", Max: 1000, Integer: true, Unstated: true, Help: "pods that a node takes, as a dimension of its own, which live clusters have; 0: no such dimension"},
		{Name: "hard", Max: 1, Unstated: true, Help: "share of the Deployments with a hard even spread over zones (maxSkew 1)"},
		{Name: "egress", Max: 2, Unstated: true, Help: "what the declared replicas send ÷ what the nodes' uplinks can, 10 Gbit/s for 32 cores; 0: nothing is said of it"},
		{Name: "partners", Max: 1, Unstated: true, Help: "share of the Deployments in pairs, of which one sends half of its traffic to the other, pod to pod; wants egress"},
		{Name: "usage", Words: []string{"0", "1", "hot"}, Unstated: true, Help: "1: also what the pods really use, as usage.csv.gz: a mean of 15 to 45 % of the cpu requests by app, 40 to 80 % of memory; hot: 60 % of cpu"},
	}, forecastParams()...),
	check: func(p Values) error {
		if p["partners"] != 0 && p["egress"] == 0 {
			return errors.New("partners wants egress")
		}
		if p["f"] != 0 && p["fleet"] != kubernetesFixed {
			return errors.New("f is for fleet=fixed")
		}
		return nil
	},
	Make: makeKubernetes,
}

// Values of the parameter fleet.
const (
	kubernetesOne = iota
	_             // open
	kubernetesFixed
)

const (
	kubernetesLeast   = 30   // Deployments
	kubernetesTop     = .2   // largest share of the volume that one Deployment declares
	kubernetesLimited = .5   // largest share of the nodes that a limit may need
	kubernetesPair    = 25   // Deployments to one exclusion
	kubernetesPaired  = .8   // largest share of the nodes that an exclusion may need
	kubernetesPods    = 4500 // declared at most, if the number of nodes is drawn
)

// cpuRequests are the requests of pods, in thousandths of a core.
var cpuRequests = []spec{
	{cpu: 50, share: .2},
	{cpu: 100, share: .22},
	{cpu: 250, share: .22},
	{cpu: 500, share: .16},
	{cpu: 1000, share: .12},
	{cpu: 2000, share: .06},
	{cpu: 4000, share: .02},
}

var cronPeriods = []float64{15, 30, 60, 120, 180, 360} // minutes

// A workload is a Deployment or, with a period, a cron job.
type workload struct {
	demand        []int64 // thousandths of a core, bytes, GPUs
	weight        float64 // Pareto
	replicas      int     // declared
	amplitude     float64 // of the daily scaling; 0 = no scaling
	limit, spread int32
	period        float64 // seconds
	duration      float64 // seconds, mean
}

// most is the largest number of pods alive at the same time, nearly.
func (w *workload) most() float64 {
	return math.Ceil(float64(w.replicas) * (1 + w.amplitude) * (1 + surgeShare))
}

func makeKubernetes(seed uint64, p Values) *trace.Trace {
	fleet := newNodePools(Stream(seed, streamFleet), p)
	work := drawWorkloads(Stream(seed, StreamApps), p, fleet)
	inst := fleet.instance()
	forecast := Stream(seed, streamForecast)
	need := make([]float64, len(work))
	deployments := 0
	for i, w := range work {
		name := fmt.Sprintf("deploy-%03d", i)
		if w.period > 0 {
			name = fmt.Sprintf("cron-%03d", i-deployments)
		} else {
			deployments++
		}
		AddApp(inst, name, w.demand, int(w.limit), p.expected(float64(w.replicas), forecast), -1)
		inst.Groups[i].SpreadMin = w.spread
		inst.Apps[i].Types = fleet.types(w.demand)
		need[i] = fleet.share(&w)
	}
	rng := Stream(seed, streamCounts)
	addExclusions(inst, excludePairs(rng, int(math.Round(float64(deployments)/kubernetesPair)), need[:deployments], kubernetesPaired))

	end := p["days"] * day
	life := Stream(seed, streamLifetimes)
	var arrivals []arrival
	for i, w := range work {
		for _, pod := range w.life(life, end) {
			pod.app = int32(i)
			arrivals = append(arrivals, pod)
		}
	}
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return cmp.Compare(a.time, b.time) })
	t := &trace.Trace{Instance: inst, MeasureFrom: min(day, end/2)}
	addArrivals(t, arrivals, end)
	t.Source = map[string]any{"method": "Deployments with Pareto replicas, daily scaling and roll-outs; cron jobs; one pod a request; expected is the declared replicas"}
	if inst.Fleet == binpack.Fixed {
		fleet.size(t)
	}
	preferSoftly(Stream(seed, streamSoft), inst, deployments, p)
	spreadHard(Stream(seed, streamHard), inst, deployments, p["hard"])
	addEgress(Stream(seed, streamEgress), inst, work, fleet, p["egress"])
	addPartners(Stream(seed, streamPartners), inst, deployments, p["partners"])
	countPods(inst, int64(p["pods"]))
	inst.Machines = inZones(inst.Machines, int(p["zones"]))
	addUsage(Stream(seed, streamUsage), t, work, end, p["usage"])
	return t
}

// countPods adds a dimension of pods, of which each machine takes as many; 0 = none.
func countPods(inst *binpack.Instance, most int64) {
	if most == 0 {
		return
	}
	inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: "pods", One: 1})
	for i := range inst.Machines {
		inst.Machines[i].Capacity = append(slices.Clone(inst.Machines[i].Capacity), most)
	}
	for i := range inst.Apps {
		inst.Apps[i].Demand = append(slices.Clone(inst.Apps[i].Demand), 1)
	}
}

// drawWorkloads draws the Deployments, so many replicas of them that they fill the
// target, and the cron jobs in addition to them.
func drawWorkloads(rng *rand.Rand, p Values, fleet *nodePools) []workload {
	work := make([]workload, int(math.Round(kubernetesLeast*math.Pow(10, rng.Float64()))))
	jobs := int(math.Round(float64(len(work)) * (.1 + .15*rng.Float64())))
	shape := .9 + .7*rng.Float64()
	for i := range work {
		w := workload{replicas: 1, weight: math.Pow(1-rng.Float64(), -1/shape)}
		if rng.Float64() < p["gpus"] {
			w.demand = fleet.drawGPU(rng)
		} else {
			w.demand = fleet.draw(rng, false)
		}
		if rng.Float64() < scaling {
			w.amplitude = drawAmplitude(rng)
		}
		work[i] = w
	}
	// A small cluster has fewer apps, not apps beyond its size.
	for len(work) > kubernetesLeast && fleet.volume(work) > fleet.target/2 {
		work = work[:len(work)-1]
	}
	jobs = min(jobs, len(work)/4)
	fleet.fill(work)
	if pods := declared(work); p["nodes"] == 0 && pods > kubernetesPods {
		fleet.target *= kubernetesPods / pods
		fleet.fill(work)
	}
	for i := fleet.crowded(work); i >= 0; i = fleet.crowded(work) {
		work[i].demand = fleet.draw(rng, true)
		fleet.fill(work)
	}
	constrain(rng, work, fleet, p["limited"])
	for range jobs {
		demand := fleet.draw(rng, true)
		w := drawJob(rng)
		w.demand = demand
		work = append(work, w)
	}
	return work
}

// scaling is the share of the Deployments that scale over the day.
const scaling = .4

func drawAmplitude(rng *rand.Rand) float64 { return .3 + 1.2*rng.Float64() }

func drawJob(rng *rand.Rand) workload {
	w := workload{replicas: 1, period: 60 * cronPeriods[rng.IntN(len(cronPeriods))]}
	if rng.Float64() < .3 {
		w.replicas = 2 + rng.IntN(3)
	}
	w.duration = 120 * math.Pow(20, rng.Float64()) // 2 to 40 minutes
	return w
}

func declared(work []workload) (pods float64) {
	for i := range work {
		pods += float64(work[i].replicas)
	}
	return pods
}

// constrain gives Deployments their limits and spreads. If a limit would need too many
// nodes, a later Deployment without one has it instead.
func constrain(rng *rand.Rand, work []workload, fleet *nodePools, limited float64) {
	var owed []int32
	one, most := cmp.Or(limited, .15), kubernetesLimited
	if limited > 0 {
		most = .5 * math.Pow(4, rng.Float64())
	}
	for i := range work {
		w := &work[i]
		u, spread := rng.Float64(), int32(2+rng.IntN(2))
		switch {
		case u < one:
			owed = append(owed, 1)
		case u < one+(1-one)*.07/.85:
			owed = append(owed, 2)
		case u < one+(1-one)*.2/.85:
			w.spread = spread
			continue
		}
		if len(owed) == 0 {
			continue
		}
		w.limit = owed[0]
		if fleet.share(w) <= most {
			owed = owed[1:]
		} else {
			w.limit = 0
		}
	}
}

// life draws the pods of a workload until end, each with the time that it leaves.
func (w *workload) life(rng *rand.Rand, end float64) []arrival {
	if w.period > 0 {
		return w.runs(rng, end)
	}
	d := deployment{workload: w, rng: rng, peak: 3600 * (12.5 + 3*rng.Float64())}
	for range w.target(d.peak, 0) {
		d.create(milliseconds(startUp * rng.Float64()))
	}
	step := 60 * (15 + 30*rng.Float64())
	scale, rollout := math.Inf(1), math.Inf(1)
	if w.amplitude > 0 {
		scale = startUp + step*(1-rng.Float64())
	}
	if rng.Float64() < .7 {
		rollout = startUp + rollOutEvery*rng.ExpFloat64()
	}
	for min(scale, rollout) < end {
		if scale <= rollout {
			d.scaleTo(w.target(d.peak, scale), scale)
			scale += step
			continue
		}
		done := d.rollOut(rollout)
		for scale <= done {
			scale += step
		}
		rollout = done + rollOutEvery*rng.ExpFloat64()
	}
	return d.pods
}

const (
	// startUp is the time in which the pods appear that live when the trace begins.
	startUp      = 300.     // seconds
	rollOutEvery = day / .7 // mean
)

// target is how many replicas the workload has at a time: those declared at night,
// 1 + amplitude times as many at the peak.
func (w *workload) target(peak, at float64) int {
	swing := 1 + w.amplitude*(.5+.5*math.Cos(2*math.Pi*(at-peak)/day))
	return max(1, int(math.Round(float64(w.replicas)*swing)))
}

// runs are the pods of a cron job.
func (w *workload) runs(rng *rand.Rand, end float64) []arrival {
	var pods []arrival
	for at := 60 * math.Floor(w.period/60*rng.Float64()); at < end; at += w.period {
		for range w.replicas {
			leaves := at + max(1, w.duration*Lognormal(rng, .4))
			pods = append(pods, arrival{time: at, deletes: []float64{milliseconds(leaves)}})
		}
	}
	return pods
}

// A deployment is followed through time.
type deployment struct {
	*workload
	rng    *rand.Rand
	peak   float64 // time of day
	pods   []arrival
	living []int // of pods, oldest first
}

func (d *deployment) create(at float64) {
	d.living = append(d.living, len(d.pods))
	d.pods = append(d.pods, newArrival(at, 0, 1))
}

func (d *deployment) remove(pods []int, at float64) {
	for _, i := range pods {
		d.pods[i].deletes[0] = milliseconds(at)
	}
}

// scaleTo creates pods, or lets the newest leave.
func (d *deployment) scaleTo(n int, at float64) {
	for len(d.living) < n {
		d.create(at)
	}
	d.remove(d.living[n:], at)
	d.living = d.living[:n]
}

// rollOut replaces all pods in batches and returns when it is over: the old pods
// of a batch leave when the new ones are ready.
func (d *deployment) rollOut(at float64) float64 {
	batch := surge(len(d.living))
	for left := len(d.living); left > 0; left -= batch {
		now := min(batch, left)
		for range now {
			d.create(at)
		}
		at += ready(d.rng)
		d.remove(d.living[:now], at)
		d.living = slices.Delete(d.living, 0, now)
	}
	return at
}
