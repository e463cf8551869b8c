package convert

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/lab/reassign"
)

// roadef is machine reassignment, the ROADEF/EURO challenge 2012: an instance is a model and an assignment.
var roadef = Format{
	Name:    "roadef",
	Help:    "model_*.txt, assignment_*.txt: machine reassignment, a trace for each pair",
	convert: convertRoadef,
}

type roadefInstance struct {
	name, model string
	files       map[string]any
	problem     *reassign.Problem
}

func convertRoadef(in inputs, _ Options, emit Emit) error {
	var all []roadefInstance
	for _, f := range in {
		base, ok := strings.CutPrefix(strings.TrimSuffix(f.name, ".txt"), "model_")
		if !ok || !strings.HasSuffix(f.name, ".txt") {
			continue
		}
		assignment, err := in.one("assignment_" + base + ".txt")
		if err != nil {
			return err
		}
		r := roadefInstance{name: "roadef-" + slug(base)}
		if err := r.read(f, assignment); err != nil {
			return err
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return errors.New("no file is named like model_*.txt")
	}
	if err := sortByName(all, func(r roadefInstance) string { return r.name }); err != nil {
		return err
	}
	for _, r := range all {
		if err := emit(r.trace(), len(all)); err != nil {
			return err
		}
	}
	return nil
}

func (r *roadefInstance) read(model, assignment input) error {
	m, err := model.read()
	if err != nil {
		return err
	}
	a, err := assignment.read()
	if err != nil {
		return err
	}
	r.model, r.files = string(m), map[string]any{model.name: digest(m), assignment.name: digest(a)}
	problem, file, err := reassign.Read(r.model, string(a))
	if err != nil {
		path := model.path
		if file == "assignment" {
			path = assignment.path
		}
		return fmt.Errorf("%s:%w", path, err)
	}
	r.problem = problem
	return nil
}

// trace makes each process an app, each service a group with one process a machine. What a
// trace cannot say is in the model, which trace.yaml keeps for the objective of a rebalance.
func (r *roadefInstance) trace() *trace.Trace {
	p := r.problem
	inst := &binpack.Instance{Types: []string{"machine"}, Fleet: binpack.Fixed}
	for i := range p.Transient {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: fmt.Sprintf("r%02d", i), One: 1})
	}
	for i, m := range p.Machines {
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: fmt.Sprintf("m%04d", i), Count: 1, Cost: 1, Capacity: m.Capacity})
	}
	for i := range p.Services {
		inst.Groups = append(inst.Groups, binpack.Group{Name: fmt.Sprintf("s%05d", i), Limit: 1})
	}
	t := &trace.Trace{Instance: inst, MeasureFrom: math.NaN(), Name: r.name}
	for i, process := range p.Processes {
		name := fmt.Sprintf("p%05d", i)
		inst.Apps = append(inst.Apps, binpack.App{Name: name, Group: process.Service, Demand: process.Demand, Expected: -1, Lifetime: -1})
		t.Requests = append(t.Requests, trace.Request{Name: name, App: int32(i), Count: 1})
		t.Placed = append(t.Placed, trace.Placed{Request: int32(i), Line: p.Start[i], Count: 1})
	}
	t.Initial = len(t.Requests)
	t.Description = fmt.Sprintf("machine reassignment, %s: %d processes of %d services on %d machines", r.name, len(p.Processes), len(p.Services), len(p.Machines))
	t.Source = map[string]any{
		"origin": "roadef",
		"files":  r.files,
		"method": "app a process, group its service; spread over locations, dependencies and transient resources are in the model alone",
		"model":  r.model,
	}
	return t
}
