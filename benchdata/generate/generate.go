package generate

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A Kind is a family of instances.
type Kind struct {
	Name   string
	Help   string // one line
	Params []Param
	Make   func(seed uint64, p Values) *trace.Trace
	check  func(p Values) error // of parameters together; may be nil
}

// A Param is a number that changes the instances of a [Kind].
type Param struct {
	Name              string
	Default, Min, Max float64
	Integer           bool
	// Words name the values 0, 1, …; such a parameter is given by word.
	Words []string
	// Unstated means that a trace states the parameter only when it is not the default.
	Unstated bool
	Help     string // one line
}

// Adding a kind is one file and one line here.
var kinds = []Kind{small, large, large2d, large3d, fixed, churn, kubernetes}

// Laboratory are the kinds that only sigma-lab registers.
var Laboratory = []string{"weibull", "orlib", "wide"}

// Register adds a kind. Call it in an init function.
func Register(k Kind) { kinds = append(kinds, k) }

// Kinds lists the kinds of [Generate].
func Kinds() []Kind { return slices.Clone(kinds) }

// Generate makes an instance of a kind. set overrides parameters by name.
func Generate(kind string, seed uint64, set map[string]string) (*trace.Trace, error) {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == kind })
	if i < 0 {
		return nil, fmt.Errorf("generate: unknown kind %q; there are %s", kind, names(kinds, func(k Kind) string { return k.Name }))
	}
	k := kinds[i]
	p, err := k.parse(set)
	if err != nil {
		return nil, err
	}
	if p["hard"] > 0 && p["zones"] == 0 {
		return nil, fmt.Errorf("generate %s: hard=%v: want zones, too", kind, p["hard"])
	}
	t := k.Make(seed, p)
	t.Name = fmt.Sprintf("%s-%d", kind, seed)
	t.Description = k.Help
	source := map[string]any{
		"origin":     "generated",
		"generator":  "sigma generate " + kind,
		"seed":       seedValue(seed),
		"parameters": p.numbers(k.Params),
	}
	maps.Copy(source, t.Source)
	t.Source = source
	return t, nil
}

// Values holds every parameter of a kind.
type Values map[string]float64

func (k Kind) parse(set map[string]string) (Values, error) {
	p := Values{}
	for _, q := range k.Params {
		p[q.Name] = q.Default
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		i := slices.IndexFunc(k.Params, func(q Param) bool { return q.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("generate %s: unknown parameter %q; there are %s",
				k.Name, name, names(k.Params, func(q Param) string { return q.Name }))
		}
		q := k.Params[i]
		if q.Words != nil {
			at := slices.Index(q.Words, set[name])
			if at < 0 {
				return nil, fmt.Errorf("generate %s: %s=%q: want %s", k.Name, name, set[name], strings.Join(q.Words, " or "))
			}
			p[name] = float64(at)
			continue
		}
		v, err := strconv.ParseFloat(set[name], 64)
		if err != nil {
			return nil, fmt.Errorf("generate %s: %s=%q is not a number", k.Name, name, set[name])
		}
		if !(v >= q.Min && v <= q.Max) { // NaN fails too
			return nil, fmt.Errorf("generate %s: %s=%s is not within %v and %v", k.Name, name, set[name], q.Min, q.Max)
		}
		if q.Integer && v != math.Trunc(v) {
			return nil, fmt.Errorf("generate %s: %s=%s is not a whole number", k.Name, name, set[name])
		}
		p[name] = v
	}
	factor, ok := p["forecast"]
	switch {
	case !ok:
	case factor > 0 && factor < leastForecast: // expected counts have two decimals
		return nil, fmt.Errorf("generate %s: forecast=%v: want 0, which is none, or .01 to 100", k.Name, factor)
	case factor == 0 && p["total"] != 0:
		return nil, fmt.Errorf("generate %s: total=known scales a forecast, and forecast=0 is none", k.Name)
	}
	if k.check != nil {
		if err := k.check(p); err != nil {
			return nil, fmt.Errorf("generate %s: %w", k.Name, err)
		}
	}
	return p, nil
}

// numbers are the parameters stated in the source of a trace.
func (p Values) numbers(params []Param) map[string]any {
	out := map[string]any{}
	for _, q := range params {
		v := p[q.Name]
		switch {
		case q.Unstated && v == q.Default:
		case q.Words != nil:
			out[q.Name] = q.Words[int(v)]
		case v == math.Trunc(v):
			out[q.Name] = int(v) // as a YAML reader gives it back
		default:
			out[q.Name] = v
		}
	}
	return out
}

func seedValue(seed uint64) any {
	if seed <= math.MaxInt64 {
		return int(seed)
	}
	return seed
}

// Purposes of random streams.
const (
	StreamApps      = iota + 1 // specs, limits, exclusions; of small also the counts
	streamPacking              // the search for a packing of small
	streamCounts               // true counts around their means
	streamForecast             // errors of the forecast
	StreamRequests             // sizes, order and times of requests
	streamLifetimes            // also scaling and roll-outs
	streamFleet                // sizes of nodes
	streamSoft                 // preferences of pods
	streamHard                 // hard spread over zones
	streamEgress               // traffic of pods
	streamPartners             // targets of the traffic
	streamUsage                // the usage of pods
)

// Stream is the random stream of an instance for one purpose.
func Stream(seed, purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, purpose))
}

// Lognormal draws a factor with mean 1 and standard deviation sigma of its
// logarithm.
func Lognormal(rng *rand.Rand, sigma float64) float64 {
	return math.Exp(sigma*rng.NormFloat64() - sigma*sigma/2)
}

// totalParam belongs to kinds whose forecast can be exact in total, though not per app.
var totalParam = Param{
	Name: "total", Words: []string{"unknown", "known"}, Unstated: true,
	Help: "known: every expected count is scaled by one factor, so that together they ask for the true total of cpu",
}

// knowTotal scales the forecast so that Σ expected·cpu is that of the counts: the
// planner has the exact total load, but not the app that it comes from.
func knowTotal(inst *binpack.Instance, counts []int64, p Values) {
	if p["total"] == 0 {
		return
	}
	is, expected := 0., 0.
	for a, app := range inst.Apps {
		is += float64(counts[a] * app.Demand[0])
		expected += app.Expected * float64(app.Demand[0])
	}
	for a := range inst.Apps {
		inst.Apps[a].Expected *= is / expected
	}
}

// gib is the unit in which the standard instances state memory, in bytes.
const gib = int64(1) << 30

// A spec is the request of one container, and its frequency.
type spec struct {
	cpu, memory int64 // cores, GiB
	share       float64
}

// pick draws from a mix whose shares sum to 1.
func pick(rng *rand.Rand, mix []spec) spec {
	u := rng.Float64()
	for _, s := range mix {
		if u -= s.share; u < 0 {
			return s
		}
	}
	return mix[len(mix)-1]
}

// Machines of the standard clusters: cores, GiB of memory, GiB of disk.
const (
	machineCPU    = 96
	machineMemory = 512
	machineDisk   = 4096
)

// cluster is an instance without apps: one kind of machine, an open fleet.
func cluster(disk bool) *binpack.Instance {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}},
		Types:      []string{"96c512g"},
		Fleet:      binpack.Open,
		Machines: []binpack.MachineLine{{
			Name: "m", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{machineCPU, machineMemory * gib},
		}},
	}
	if disk {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: "disk", One: 1})
		inst.Machines[0].Capacity = append(inst.Machines[0].Capacity, machineDisk*gib)
	}
	return inst
}

// AddApp adds an app that is a group by itself.
func AddApp(inst *binpack.Instance, name string, demand []int64, limit int, expected, lifetime float64) {
	inst.Apps = append(inst.Apps, binpack.App{
		Name: name, Group: int32(len(inst.Groups)), Demand: demand, Expected: expected, Lifetime: lifetime,
	})
	inst.Groups = append(inst.Groups, binpack.Group{Name: name, Limit: int32(limit)})
}

// A pair of apps that must not share a machine; a < b.
type pair struct{ a, b int }

// addExclusions adds both directions of each pair, sorted.
func addExclusions(inst *binpack.Instance, pairs []pair) {
	for _, p := range pairs {
		inst.Rules = append(inst.Rules, binpack.Rule{A: int32(p.a), B: int32(p.b)}, binpack.Rule{A: int32(p.b), B: int32(p.a)})
	}
	slices.SortFunc(inst.Rules, func(x, y binpack.Rule) int {
		if x.A != y.A {
			return int(x.A - y.A)
		}
		return int(x.B - y.B)
	})
}

// excludePairs draws n different pairs of apps that together need at most the given
// number of machines. It draws fewer where pairs are too hard to find.
func excludePairs(rng *rand.Rand, n int, need []float64, most float64) []pair {
	var out []pair
	seen := map[pair]bool{}
	for range 200 * n {
		if len(out) == n {
			break
		}
		p := pair{rng.IntN(len(need)), rng.IntN(len(need))}
		if p.a > p.b {
			p.a, p.b = p.b, p.a
		}
		if p.a == p.b || seen[p] || need[p.a]+need[p.b] > most {
			continue
		}
		seen[p] = true
		out = append(out, p)
	}
	return out
}

// AddRequests adds one create per request, in order; without times a request has its index.
func AddRequests(t *trace.Trace, requests []trace.Request, times []float64) {
	width := max(5, len(strconv.Itoa(len(requests)-1)))
	if times == nil {
		times = indices(len(requests))
	}
	for i, r := range requests {
		r.Name = fmt.Sprintf("r%0*d", width, i)
		t.Requests = append(t.Requests, r)
		t.Events = append(t.Events, trace.Event{Time: times[i], Kind: trace.Create, Request: int32(i), Count: r.Count})
	}
}

// indices returns 0, 1, 2, …: the times of n requests where only their order matters.
func indices(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i)
	}
	return out
}

// milliseconds rounds a time in seconds.
func milliseconds(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }

func names[T any](list []T, name func(T) string) string {
	var out []string
	for _, x := range list {
		out = append(out, name(x))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
