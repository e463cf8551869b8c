package savings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// An instanceType is one of a price list.
type instanceType struct {
	arch string
	cost float64            // an hour
	has  map[string]float64 // for pods, an estimate
}

// A nodePool is a machine beside which one of another instance type may be.
type nodePool struct {
	arch      string
	has, less map[string]float64 // resources besides those of the type, and the demand of DaemonSets' pods
	refuses   map[string]any     // apps that may use the machine, and no other type
}

// readTypes reads the instance types of a price list, and the pools that they may be in.
func (f *facts) readTypes(all map[string]any) error {
	f.noTypes, _ = all["no_types"].(string)
	types, ok := mapping(all["types"])
	if !ok {
		return wrongFact(".types", "instance types, each with arch, cost and has")
	}
	f.types, f.pools = map[string]instanceType{}, map[string]nodePool{}
	for name, value := range types {
		of, _ := value.(map[string]any)
		t := instanceType{arch: fmt.Sprint(of["arch"])}
		if t.cost, ok = number(of["cost"]); !ok {
			return wrongFact(".types."+name+".cost", "a number, 0 or more")
		}
		if t.has, ok = numbers(of["has"]); !ok {
			return wrongFact(".types."+name+".has", "resources, each with an amount")
		}
		f.types[name] = t
	}
	pools, ok := mapping(all["pools"])
	if !ok {
		return wrongFact(".pools", "machines, each with arch, has, less and refuses")
	}
	for name, value := range pools {
		of, _ := value.(map[string]any)
		p := nodePool{arch: fmt.Sprint(of["arch"])}
		for _, part := range []struct {
			key string
			to  *map[string]float64
		}{{"has", &p.has}, {"less", &p.less}} {
			if *part.to, ok = numbers(of[part.key]); !ok {
				return wrongFact(".pools."+name+"."+part.key, "resources, each with an amount")
			}
		}
		if p.refuses, ok = mapping(of["refuses"]); !ok {
			return wrongFact(".pools."+name+".refuses", "apps")
		}
		f.pools[name] = p
	}
	return nil
}

// numbers is a mapping of amounts; empty for nil.
func numbers(value any) (map[string]float64, bool) {
	list, ok := mapping(value)
	of := map[string]float64{}
	for name, amount := range list {
		n, known := number(amount)
		of[name], ok = n, ok && known
	}
	return of, ok
}

// A noTypesError is the reason for which a trace has no other instance types.
type noTypesError struct{ why string }

func (e *noTypesError) Error() string { return "it has no other instance types: " + e.why }

// AnyType is [AnyNumber] with any number of machines of each instance type of a price list too, in the pools that exist: with
// their labels, taints, zones and pods of DaemonSets.
func AnyType(t *trace.Trace) (*trace.Trace, error) {
	f, err := factsOf(t)
	if err != nil {
		return nil, err
	}
	if len(f.types) == 0 || len(f.pools) == 0 {
		return nil, fmt.Errorf("trace %s: %w", t.Name, &noTypesError{cmp.Or(f.noTypes, "no snapshot of a cluster")})
	}
	if t, err = AnyNumber(t); err != nil {
		return nil, err
	}
	inst := t.Instance // a copy
	inst.Apps, inst.Types = slices.Clone(inst.Apps), slices.Clone(inst.Types)
	known := len(inst.Machines)
	for i := range known {
		like := inst.Machines[i]
		p, ok := f.pools[like.Name]
		if !ok {
			continue
		}
		if len(p.refuses) > 0 {
			like.Type = addType(inst, like, p.refuses)
		}
		for _, name := range slices.Sorted(maps.Keys(f.types)) {
			of := f.types[name]
			m := binpack.MachineLine{Name: name + " beside " + like.Name, Type: like.Type, Count: binpack.Unlimited, Cost: of.cost, Zone: like.Zone}
			usable := of.arch == p.arch
			for _, dim := range inst.Dimensions {
				free := max(0, of.has[dim.Name]+p.has[dim.Name]-p.less[dim.Name])
				m.Capacity = append(m.Capacity, int64(math.Round(free*float64(dim.One))))
				usable = usable && (free > 0 || of.has[dim.Name] == 0)
			}
			if usable {
				inst.Machines = append(inst.Machines, m)
			}
		}
	}
	return t, nil
}

// addType adds a type of machines that admits the apps of a machine's type but for some.
func addType(inst *binpack.Instance, like binpack.MachineLine, refused map[string]any) int32 {
	added := int32(len(inst.Types))
	every := make([]int32, added)
	for i := range every {
		every[i] = int32(i)
	}
	inst.Types = append(inst.Types, fmt.Sprintf("beside %s", like.Name))
	for i := range inst.Apps {
		a := &inst.Apps[i]
		switch {
		case refused[a.Name] != nil && a.Types == nil:
			a.Types = every
		case refused[a.Name] == nil && a.Types != nil && slices.Contains(a.Types, like.Type):
			a.Types = append(slices.Clone(a.Types), added)
		}
	}
	return added
}
