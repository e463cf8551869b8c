package placement

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/lab/records"
)

var sharing = Section{
	Name:  "openb",
	title: "GPU sharing: openb, in FGD's protocol",
	about: `Alibaba's pods, drawn until they ask for 130 % of the GPUs of 1,213 nodes (Weng et al. 2023); pods that find
no place are dropped. The policies were trained on the lists cpu100, cpu250, gpushare40 and multigpu20, drawn with
another seed. The figure is the share of the GPUs that is allocated when 130 % have been asked for, the mean over the
seeds 42 to 51 and 100 to 109; the standard error is over seeds. FGD knows the mix of pods beforehand, and so does
` + "`learned`" + ` (K1), but not at K0. bestfit-fgd is Best Fit as FGD's authors define it.`,
	run: runSharing,
}

// openbLists are the test lists with their targets.
var openbLists = []struct {
	name      string
	must, aim float64
}{
	{"default", 95.39, 95.9},
	{"cpu050", 95.21, 95.9},
	{"gpushare100", 86.90, 87.3},
	{"gpuspec33", 94.55, 95.8},
}

// openbPolicies are the names on the page with the flags of sigma replay.
var openbPolicies = []struct {
	name  string
	flags []string
}{
	{"learned", []string{"--policy", "learned"}},
	{"learned at K0", []string{"--policy", "learned", "--knowledge", "K0"}},
	{"fgd", []string{"--policy", "fgd"}},
	{"bestfit-fgd", []string{"--policy", "bestfit-fgd"}},
}

// A podClass is a class of pods that must not be dropped to place others.
type podClass int

const (
	otherPods podClass = iota
	cpuPods
	eightPods
	podClasses
)

func (c podClass) String() string {
	return [...]string{"other pods", "pods without GPUs", "pods of 8 GPUs"}[c]
}

// A gpuRun is what one replay left behind.
type gpuRun struct {
	allocated float64 // % of the GPUs
	dropped   [podClasses]int
}

func runSharing(b *bench) error {
	if b.runner.Data == "" {
		b.leftOut("all lists")
		return nil
	}
	for _, list := range openbLists {
		runs := map[string][]gpuRun{}
		err := b.runner.Loop(openbLoop(b, list.name), func() error {
			for i := range 2 * openbBlock {
				seed := 42 + i
				if i >= openbBlock {
					seed = 100 + i - openbBlock
				}
				if err := b.openbSeed(list.name, seed, runs); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, p := range openbPolicies[:2] {
			b.openbLines(list.name, p.name, list.must, list.aim, runs)
		}
	}
	return nil
}

// openbBlock is the number of seeds that are counted together.
const openbBlock = 10

// openbLoop is the shell loop that the page shows for a list.
func openbLoop(b *bench, list string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "for s in {42..51} {100..109}; do\n\tbin/sigma-lab convert openb $SIGMA_DATA/openb --list %s --seed $s --out %s\n", list, b.path("trace"))
	for _, p := range openbPolicies {
		fmt.Fprintf(&text, "\tbin/sigma replay --trace %s --placements %s --quiet %s\n", b.path("trace"), b.path("placements.csv"), strings.Join(p.flags, " "))
	}
	return text.String() + "done"
}

// openbSeed replays one draw of a list under all policies.
func (b *bench) openbSeed(list string, seed int, runs map[string][]gpuRun) error {
	dir, err := b.convert("trace", "openb", []string{"openb"}, "--list", list, "--seed", strconv.Itoa(seed))
	if err != nil {
		return err
	}
	t, err := trace.Load(dir)
	if err != nil {
		return err
	}
	for _, p := range openbPolicies {
		file := b.path("placements.csv")
		if _, _, err := b.sigma(append([]string{"replay", "--trace", dir, "--placements", file, "--quiet"}, p.flags...)...); err != nil {
			return err
		}
		run, err := measureGPUs(t, file)
		if err != nil {
			return err
		}
		runs[p.name] = append(runs[p.name], run)
	}
	return nil
}

// measureGPUs reads what a replay did: the mean allocation over the arrivals after
// which the load rounds to 130 %, as FGD's authors do, and what was dropped.
func measureGPUs(t *trace.Trace, file string) (run gpuRun, err error) {
	placements, err := trace.ReadPlacements(file)
	if err != nil {
		return run, err
	}
	const gpu = 2
	one := t.Instance.Dimensions[gpu].One
	whole, arrived, used, sum, count := 0.0, 0.0, 0.0, 0.0, 0.0
	for _, m := range t.Instance.Machines {
		whole += float64(m.Capacity[gpu])
	}
	need := map[string]int64{}
	for _, app := range t.Instance.Apps {
		need[app.Name] = app.Demand[gpu]
	}
	for _, p := range placements {
		n := need[p.App]
		arrived += float64(n)
		if p.Kind == trace.Place {
			used += float64(n)
		} else {
			run.dropped[podClassOf(n, one)]++
		}
		if math.RoundToEven(100*arrived/whole) == 130 {
			sum += used / whole
			count++
		}
	}
	if count == 0 {
		return run, fmt.Errorf("%s: the load does not reach 130 %%", file)
	}
	run.allocated = 100 * sum / count
	return run, nil
}

func podClassOf(need, one int64) podClass {
	switch need {
	case 0:
		return cpuPods
	case 8 * one:
		return eightPods
	}
	return otherPods
}

// openbLines adds the lines of a policy on a list.
func (b *bench) openbLines(list, policy string, must, aim float64, runs map[string][]gpuRun) {
	allocated := func(p string) (mean, se float64) {
		var values []float64
		for _, r := range runs[p] {
			values = append(values, r.allocated)
		}
		return meanSE(values)
	}
	work := list + ", " + policy
	l := records.Line{Work: work, Figure: "GPUs allocated, %", Must: records.AtLeast(must), Aim: records.AtLeast(aim)}
	l.Value, l.SE = allocated(policy)
	l.Peers = peers(allocated, "%.2f", "fgd", "bestfit-fgd")
	b.line(l)
	if policy != openbPolicies[0].name {
		return
	}
	b.line(records.Line{
		Work: work, Figure: "seeds with no less than fgd, of 10: the fewer of both tens",
		Value: float64(min(wins(runs, policy, 0), wins(runs, policy, openbBlock))), Format: "%.0f", Must: records.AtLeast(8),
	})
	for _, class := range []podClass{cpuPods, eightPods} {
		dropped := func(p string) (sum, _ float64) {
			for _, r := range runs[p] {
				sum += float64(r.dropped[class])
			}
			return sum, 0
		}
		theirs, _ := dropped("fgd")
		l := records.Line{
			Work: work, Figure: fmt.Sprintf("%v dropped", class), Format: "%.0f",
			Peers: peers(dropped, "%.0f", "fgd", "bestfit-fgd"), Must: records.AtMost(math.Floor(1.05 * theirs)),
		}
		l.Value, _ = dropped(policy)
		b.line(l)
	}
}

// wins counts of ten seeds those on which a policy allocates no less than FGD.
func wins(runs map[string][]gpuRun, policy string, from int) int {
	n := 0
	for i := from; i < from+openbBlock; i++ {
		if runs[policy][i].allocated >= runs["fgd"][i].allocated {
			n++
		}
	}
	return n
}
