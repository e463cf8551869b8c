package savings

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// facts are those of a cluster that a trace has besides its machines and items: the key cluster of its source.
type facts struct {
	nodes     map[string]node    // that take no pods, or that no step removes
	requested map[string]float64 // of all pods, those of DaemonSets included; nil = unknown
	have      map[string]float64 // of all nodes
	used      map[string]float64 // nil = unknown
	waiting   map[string]string  // pods that wait, with the reasons
	lost      map[string]string  // pods that are in no count, with the reasons
	lists     []string           // built-in lists of prices
	missing   []string           // kinds of objects that were not read
	budgets   map[string]eviction
	priced    map[string]int      // nodes by the source of their prices
	unknown   int                 // pods on nodes whose use is not known, where that of others is
	use       map[string]measured // of the items by app; nil = unknown
	spot      map[string]bool     // nodes that are cheap since they may be taken away
	types     map[string]instanceType
	noTypes   string              // the reason for which there are none
	pools     map[string]nodePool // by machine
	follow    map[string]any      // items that must not move now, and may be replaced elsewhere
	room      map[string]Used     // of nodes for the use of items
}

// A measured app uses so much, with all pods that are measured.
type measured struct {
	Used
	pods float64
}

// A node takes no pods, or stays at every step.
type node struct {
	why     string
	cost    float64 // an hour, where it is no machine of the trace
	outside bool    // it is no machine of the trace
	stays   bool
	takes   bool // pods
}

// clusterKey is the key of the source.
const clusterKey = "cluster"

func factsOf(t *trace.Trace) (*facts, error) {
	f := &facts{}
	value := t.Source[clusterKey]
	if value == nil {
		return f, nil
	}
	all, ok := value.(map[string]any)
	if !ok {
		return nil, wrongFact("", "a mapping")
	}
	nodes, ok := mapping(all["nodes"])
	if !ok {
		return nil, wrongFact(".nodes", "names, each with why, cost and stays")
	}
	f.nodes = map[string]node{}
	for name, value := range nodes {
		of, _ := value.(map[string]any)
		n := node{why: fmt.Sprint(of["why"]), stays: of["stays"] == true, takes: of["takes"] == true}
		if n.outside = of["cost"] != nil; n.outside {
			if n.cost, ok = number(of["cost"]); !ok {
				return nil, wrongFact(".nodes."+name+".cost", "a number, 0 or more")
			}
		}
		f.nodes[name] = n
	}
	for _, of := range []struct {
		key string
		to  *map[string]string
	}{{"waiting", &f.waiting}, {"lost", &f.lost}} {
		list, ok := mapping(all[of.key])
		if !ok {
			return nil, wrongFact("."+of.key, "pods, each with the reason")
		}
		*of.to = map[string]string{}
		for name, why := range list {
			(*of.to)[name] = fmt.Sprint(why)
		}
	}
	lists, ok := mapping(all["price_lists"])
	if !ok {
		return nil, wrongFact(".price_lists", "lists of prices")
	}
	f.lists = slices.Sorted(maps.Keys(lists))
	missing, ok := mapping(all["missing"])
	if !ok {
		return nil, wrongFact(".missing", "kinds of objects")
	}
	f.missing = slices.Sorted(maps.Keys(missing))
	if err := f.readBudgets(all); err != nil {
		return nil, err
	}
	for _, of := range []struct {
		key string
		to  *map[string]float64
	}{{"requested", &f.requested}, {"allocatable", &f.have}, {"used", &f.used}} {
		list, ok := numbers(all[of.key])
		if !ok {
			return nil, wrongFact("."+of.key, "resources, each with an amount, 0 or more")
		}
		if len(list) > 0 {
			*of.to = list
		}
	}
	if n, ok := number(all["unmeasured"]); ok {
		f.unknown = int(n)
	}
	use, ok := mapping(all["use"])
	if !ok {
		return nil, wrongFact(".use", "apps, each with cpu and memory")
	}
	for name, value := range use {
		of, _ := value.(map[string]any)
		cpu, ok := number(of["cpu"])
		memory, also := number(of["memory"])
		pods, _ := number(of["pods"])
		if !ok || !also {
			return nil, wrongFact(".use."+name, "cpu and memory")
		}
		if f.use == nil {
			f.use = map[string]measured{}
		}
		f.use[name] = measured{Used{cpu, memory}, pods}
	}
	spots, ok := mapping(all["spot"])
	if !ok {
		return nil, wrongFact(".spot", "nodes")
	}
	f.spot = map[string]bool{}
	for name := range spots {
		f.spot[name] = true
	}
	if f.follow, ok = mapping(all["follow"]); !ok {
		return nil, wrongFact(".follow", "requests")
	}
	rooms, ok := mapping(all["room"])
	if !ok {
		return nil, wrongFact(".room", "nodes, each with cpu and memory")
	}
	f.room = map[string]Used{}
	for name, value := range rooms {
		of, ok := numbers(value)
		if !ok {
			return nil, wrongFact(".room."+name, "cpu and memory")
		}
		f.room[name] = Used{of["cpu"], of["memory"]}
	}
	prices, ok := mapping(all["prices"])
	if !ok {
		return nil, wrongFact(".prices", "sources, each with a number of nodes")
	}
	f.priced = map[string]int{}
	for by, n := range prices {
		count, ok := number(n)
		if !ok {
			return nil, wrongFact(".prices."+by, "a number of nodes")
		}
		f.priced[by] = int(count)
	}
	return f, f.readTypes(all)
}

// An eviction is a disruption budget: so many pods of its workloads may be away at once.
type eviction struct {
	allows    int
	workloads map[string]any
}

func (f *facts) readBudgets(all map[string]any) error {
	budgets, ok := mapping(all["budgets"])
	if !ok {
		return wrongFact(".budgets", "budgets, each with allows and workloads")
	}
	f.budgets = map[string]eviction{}
	for name, value := range budgets {
		of, _ := value.(map[string]any)
		n, ok := number(of["allows"])
		workloads, also := mapping(of["workloads"])
		if !ok || !also || n < 1 {
			return wrongFact(".budgets."+name, "allows, at least 1, and workloads")
		}
		f.budgets[name] = eviction{int(min(n, 1e6)), workloads}
	}
	return nil
}

// rounds is the least number of times that moves wait for the pods of a budget; 1 = they need not wait. moved has the
// moves by workload.
func (f *facts) rounds(moved map[string]int) int {
	most := 1
	for _, b := range f.budgets {
		n := 0
		for name := range b.workloads {
			n += moved[name]
		}
		most = max(most, (n+b.allows-1)/b.allows)
	}
	return most
}

func wrongFact(field, want string) error {
	return fmt.Errorf("trace.yaml: source.%s%s: want %s", clusterKey, field, want)
}

// mapping is a mapping, empty for nil.
func mapping(value any) (map[string]any, bool) {
	if value == nil {
		return nil, true
	}
	m, ok := value.(map[string]any)
	return m, ok
}

func number(value any) (float64, bool) {
	switch v := value.(type) {
	case int:
		return float64(v), v >= 0
	case int64:
		return float64(v), v >= 0
	case float64:
		return v, v >= 0
	}
	return 0, false
}
