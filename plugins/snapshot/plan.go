package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// plannedWorkloads returns the workloads that a plan places items of, by name, each with its nodes
// by name. Running items count.
func plannedWorkloads(t *trace.Trace, placements []trace.Placement) ([]v1alpha1.PlannedWorkload, error) {
	in := t.Instance
	apps := map[string]int32{}
	for a := range in.Apps {
		apps[in.Apps[a].Name] = int32(a)
	}
	nodes := map[int32]map[string]int32{} // by group
	of := map[int32]int32{}               // the planned app of a group
	for _, p := range placements {
		if p.Machine == "" {
			continue
		}
		a := apps[p.App]
		g := in.Apps[a].Group
		if other, ok := of[g]; ok && !slices.Equal(in.Apps[a].Demand, in.Apps[other].Demand) {
			return nil, fmt.Errorf("items of %s and %s are planned: a plan has pods of one size for the workload %s", in.Apps[other].Name, p.App, in.Groups[g].Name)
		}
		if of[g] = a; nodes[g] == nil {
			nodes[g] = map[string]int32{}
		}
		nodes[g][p.Machine]++
	}
	for _, p := range t.Placed {
		if on := nodes[in.Apps[t.Requests[p.Request].App].Group]; on != nil {
			on[t.MachineName(p.Line, p.Index)] += p.Count
		}
	}
	list := make([]v1alpha1.PlannedWorkload, 0, len(nodes))
	for _, g := range slices.SortedFunc(maps.Keys(nodes), func(a, b int32) int { return cmp.Compare(in.Groups[a].Name, in.Groups[b].Name) }) {
		w, err := workloadOf(in.Groups[g].Name)
		if err != nil {
			return nil, err
		}
		w.Requests = map[string]resource.Quantity{}
		for d, need := range in.Apps[of[g]].Demand {
			if dim := in.Dimensions[d]; need > 0 && dim.Name != "pods" {
				w.Requests[dim.Name] = resource.MustParse(trace.FormatQuantity(need, dim))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(nodes[g])) {
			w.Nodes = append(w.Nodes, v1alpha1.PlannedNode{Node: name, Pods: nodes[g][name]})
		}
		list = append(list, w)
	}
	if len(list) == 0 {
		return nil, errors.New("nothing is placed, so there is nothing to plan")
	}
	return list, nil
}

// workloadOf reads the name of a group, as a snapshot writes it.
func workloadOf(group string) (v1alpha1.PlannedWorkload, error) {
	parts := strings.Split(group, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return v1alpha1.PlannedWorkload{}, fmt.Errorf("group %q is no workload of a cluster: want NAMESPACE/KIND/NAME or NAMESPACE/NAME, as sigma snapshot writes", group)
	}
	w := v1alpha1.PlannedWorkload{Namespace: parts[0], Name: parts[len(parts)-1]}
	if len(parts) == 3 {
		w.Kind = parts[1]
	}
	return w, nil
}

// A PlanFile is the YAML file of a PlacementPlan, which has the file's name.
type PlanFile struct {
	Path     string
	Deadline string // of its reservations, as in RFC 3339
}

func (f *PlanFile) name() string {
	return strings.TrimSuffix(filepath.Base(f.Path), filepath.Ext(f.Path))
}

// Check returns the fault of the path or the deadline.
func (f *PlanFile) Check() error {
	if f.Deadline == "" {
		return errors.New("--object needs --deadline: when its reservations end, as 2026-05-04T08:00:00Z")
	}
	if _, err := time.Parse(time.RFC3339, f.Deadline); err != nil {
		return fmt.Errorf("--deadline %s: want a time like 2026-05-04T08:00:00Z", f.Deadline)
	}
	if problems := validation.IsDNS1123Subdomain(f.name()); len(problems) > 0 {
		return fmt.Errorf("--object %s: the file's name is that of the object: %s", f.Path, problems[0])
	}
	return nil
}

// Write writes the PlacementPlan that assigns the placements to their nodes. It is in DryRun.
func (f *PlanFile) Write(t *trace.Trace, placements []trace.Placement) error {
	workloads, err := plannedWorkloads(t, placements)
	if err != nil {
		return fmt.Errorf("--object: trace %s: %w", t.Name, err)
	}
	deadline, err := time.Parse(time.RFC3339, f.Deadline)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "PlacementPlan",
		"metadata": map[string]any{"name": f.name()},
		"spec":     v1alpha1.PlacementPlanSpec{Mode: v1alpha1.PlanDryRun, Deadline: metav1.NewTime(deadline), Workloads: workloads},
	})
	if err != nil {
		return err
	}
	return durable.WriteFile(f.Path, func(w io.Writer) error { _, err := w.Write(text); return err })
}
