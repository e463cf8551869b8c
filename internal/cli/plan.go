package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/savings"
)

type planFlags struct {
	paths      []string
	placements string
	format     string
	at         string
	repack     bool
	anyNumber  bool
	anyType    bool
	without    string
	timing     bool
	quiet      bool
	effort     float64
	mps, prove string
	// proveSeconds limits the solver.
	proveSeconds float64
	site         planSite
	plan.Options
}

// atPeak is the value of --at for the time of the largest demand.
const atPeak = "peak"

func (a *app) plan() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan --trace DIR",
		Short: "Pack all items of a trace at once, on as few machines as possible",
		Long: `Plan packs all items of a trace as if they were known beforehand, in any order: what a
promotion or a new site needs, or the optimum in hindsight. The items of placed.csv
stay where they are, unless --repack places them again. All constraints hold; an
independent checker checks every placement.

It prints "proven optimal" when it leaves nothing out and the cost equals a lower
bound, so that no plan costs less. Otherwise a better plan may exist: more --steps and
--starts look for it. The same flags give the same plan for any number of workers.

Where items also leave, --at names the moment to plan: a time in seconds, or peak, the
time of the largest demand. The items that live then are packed.

With --object the plan of a snapshot's waiting pods is an object PlacementPlan, by which
Sigma in the cluster lands them. With --manifests the pods of these workloads come too,
also where they do not exist yet.

After an interrupt the best plan so far is written. Where items are left out, the plan is
written too, and the exit code is 1.`,
		Example: `  sigma plan --trace small-1 --placements placements.csv
  sigma plan --trace snap --repack
  sigma plan --trace snap --object site.yaml --deadline 2026-05-04T08:00:00Z
  sigma plan --trace snap --manifests shop/ --object site.yaml --deadline 2026-05-04T08:00:00Z
  sigma plan --trace churn-1 --at peak
  sigma plan --trace large-1 --starts 8 --steps 100000 --format json`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "trace"); err != nil {
				return err
			}
			if err := cmp.Or(oneOf("format", f.format, "table", "json"), onlyWith(cmd, "prove-seconds", "prove"), onlyWith(cmd, "deadline", "object"), onlyWith(cmd, "without", "present"), onlyWith(cmd, "namespace", "manifests"), onlyWith(cmd, "app-label", "manifests")); err != nil {
				return err
			}
			if f.Steps < 1 || f.Starts < 1 || f.Workers < 1 {
				return usagef("--steps %d --starts %d --workers %d: want at least 1", f.Steps, f.Starts, f.Workers)
			}
			if at, err := strconv.ParseFloat(f.at, 64); (err != nil || math.IsNaN(at)) && f.at != "" && f.at != atPeak {
				return usagef("--at %s: want seconds or %s", f.at, atPeak)
			}
			if !(f.proveSeconds > 0) {
				return usagef("--prove-seconds %g: want more than 0", f.proveSeconds)
			}
			if err := cmp.Or(findSolver(f.prove), regular("placements", f.placements), regular("mps", f.mps), f.site.check(f.repack)); err != nil {
				return err
			}
			a.present = a.present && f.without == "" // see freer
			traces, err := a.loadTraces(f.paths)
			if err != nil {
				return err
			}
			if (f.placements+f.mps+f.site.object.Path != "" || len(f.site.manifests) > 0) && len(traces) > 1 {
				return usagef("--placements, --object, --manifests and --mps take one trace, not %d", len(traces))
			}
			if err := a.addManifests(traces, &f.site); err != nil {
				return err
			}
			if err := f.checkModels(traces); err != nil {
				return err
			}
			work, err := workOf(f.effort)
			if err != nil {
				return err
			}
			f.Work = work
			return a.planAll(cmd.Context(), traces, f)
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.paths, "trace", nil, "trace, or folder of traces (repeatable)")
	a.unpackedFlag(flags)
	flags.StringVar(&f.placements, "placements", "", "CSV file to write placements to, of one trace")
	flags.StringVar(&f.site.object.Path, "object", "", "YAML file to write a PlacementPlan to, of one trace; it begins as a dry run, and has the file's name")
	flags.StringVar(&f.site.object.Deadline, "deadline", "", "with --object: when its reservations end, as 2026-05-04T08:00:00Z")
	flags.StringArrayVar(&f.site.manifests, "manifests", nil, "manifests of what is to come: file, or folder of .yaml and .json files (repeatable)")
	flags.StringVar(&f.site.Namespace, "namespace", "default", "with --manifests: namespace of objects that name none")
	flags.StringVar(&f.site.AppLabel, "app-label", "", "with --manifests: as for the snapshot, the label whose value is a pod's app")
	flags.StringVar(&f.at, "at", "", "plan the items that live at a time in seconds, or at the peak")
	flags.BoolVar(&f.repack, "repack", false, "place the items of placed.csv again")
	a.presentFlag(flags)
	cmd.MarkFlagsMutuallyExclusive("present", "repack")
	flags.BoolVar(&f.anyNumber, "any-number", false, "also plan as if there were any number of each kind of machine; of spot nodes no more than there are")
	flags.BoolVar(&f.anyType, "any-type", false, "plan as --any-number, and also with each instance type of the price list of the trace's cluster, in the pools that exist")
	flags.StringVar(&f.without, "without", "", "also plan without a constraint that sigma savings names, as 'spread of all pods'; with --present")
	cmd.MarkFlagsMutuallyExclusive("any-number", "any-type", "without")
	cmd.MarkFlagsMutuallyExclusive("after", "without") // a constraint is one of the present
	flags.Uint64Var(&f.Seed, "seed", 1, "of the search")
	flags.IntVar(&f.Steps, "steps", plan.DefaultSteps, "steps of each search in a fleet of one size")
	flags.IntVar(&f.Starts, "starts", compare.DefaultStarts, "searches; the best counts, and one that meets the bound is the last")
	flags.StringVar(&f.prove, "prove", "", "give a plan that is not proven to an integer programming solver: cbc, which must be installed")
	flags.Float64Var(&f.proveSeconds, "prove-seconds", 60, "with --prove: time limit of the solver for each trace")
	flags.StringVar(&f.mps, "mps", "", "MPS file to write the integer program to, of one trace")
	effortFlag(cmd, &f.effort, 1)
	flags.IntVar(&f.Workers, "workers", runtime.GOMAXPROCS(0), "searches at the same time")
	flags.BoolVar(&f.timing, "timing", false, "measure CPU seconds")
	flags.StringVar(&f.format, "format", "table", "table or json")
	quietFlag(flags, &f.quiet)
	return cmd
}

// planAll plans traces one after the other. An interrupt ends the current search, and the
// plans so far are written.
func (a *app) planAll(ctx context.Context, traces []*trace.Trace, f planFlags) error {
	var plans, answers compare.Plans // answers leave out the plans that others are compared with
	for i, t := range traces {
		if i > 0 && ctx.Err() != nil {
			break
		}
		t, freer, name, err := f.freer(t)
		if err != nil {
			return err
		}
		var base *compare.PlanReport
		if freer != nil { // only the second one is written
			of := f
			of.placements, of.site.object.Path = "", ""
			p, err := a.planOne(ctx, t, of)
			if err != nil {
				return err
			}
			plans, base, t = append(plans, p), &p, freer
		}
		p, err := a.planOne(ctx, t, f)
		if err != nil {
			return err
		}
		if base != nil {
			p.Trace.Name += " " + name
			p.SaveFrom(base)
		}
		plans, answers = append(plans, p), append(answers, p)
	}
	if err := a.printPlans(plans, f); err != nil {
		return err
	}
	switch {
	case ctx.Err() == nil:
		return answers.Incomplete()
	case f.placements != "":
		return interrupted("%s holds the best plan so far", f.placements)
	}
	return interrupted("%d of %s planned, the last one not to the end", len(plans), plural.Of(len(traces), "trace"))
}

// freer returns the trace to plan, and the same with any number of machines, or without a constraint; nil = neither
// flag is set.
func (f *planFlags) freer(t *trace.Trace) (base, freer *trace.Trace, name string, err error) {
	switch {
	case f.anyNumber:
		freer, err = savings.AnyNumber(t)
		return t, freer, "with any number of each kind", err
	case f.anyType:
		if base, err = savings.AnyNumber(t); err == nil {
			freer, err = savings.AnyType(t)
		}
		return base, freer, "with any type", err
	case f.without != "":
		if freer, err = savings.Without(t, f.without); err == nil {
			base, err = savings.Present(t, "")
		}
		return base, freer, savings.Freed(f.without), err
	}
	return t, nil, "", nil
}

func (a *app) planOne(ctx context.Context, t *trace.Trace, f planFlags) (compare.PlanReport, error) {
	head, err := compare.Describe(t, cerebro.NewReplayer(t))
	if err != nil {
		return compare.PlanReport{}, err
	}
	switch f.at {
	case "":
	case atPeak:
		t = compare.Moment(t, compare.Peak(t))
	default:
		at, _ := strconv.ParseFloat(f.at, 64) // was checked
		t = compare.Moment(t, at)
	}
	if f.repack {
		t = t.FromEmpty()
	}
	show := a.newProgress(0, "step", f.quiet)
	defer show.end()
	f.Watch = func(p plan.Progress) {
		show.set(p.Steps, fmt.Sprintf("%s, %s without a place", plural.Of(p.Machines, "machine"), plural.Of(int(p.Waiting), "item")))
	}
	began := cputime.Process()
	p, err := compare.NewPlan(ctx, t, f.Options)
	if err != nil {
		return compare.PlanReport{}, err
	}
	if err := a.prove(ctx, p, f); err != nil {
		return compare.PlanReport{}, err
	}
	out := p.Report(head)
	if out.Use, err = p.Use(); err != nil {
		return compare.PlanReport{}, err
	}
	if f.timing {
		out.Plan.Seconds = cputime.Process() - began
	}
	show.end()
	if f.site.object.Path != "" {
		if err := f.site.object.Write(t, p.Placements); err != nil {
			return compare.PlanReport{}, err
		}
	}
	if f.placements == "" {
		return out, nil
	}
	file, err := trace.CreatePlacements(f.placements)
	if err != nil {
		return compare.PlanReport{}, err
	}
	defer file.Close()
	for _, placement := range p.Placements {
		if err := file.Write(placement); err != nil {
			return compare.PlanReport{}, err
		}
	}
	return out, file.Commit()
}

func (a *app) printPlans(plans compare.Plans, f planFlags) error {
	switch {
	case f.format == "json" && f.site.count != nil: // there is one plan
		return a.json([]siteReport{{plans[0], f.site.count}})
	case f.format == "json":
		return a.json(plans)
	}
	return plans.Print(a.stdout, f.timing)
}
