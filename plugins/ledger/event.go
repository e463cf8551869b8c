package ledger

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// An Event is one line of the decision log.
type Event struct {
	Seq  uint64  `json:"seq"`
	Time float64 `json:"time"` // seconds since 1970
	Kind Kind    `json:"kind"`

	Start    *Start             `json:"start,omitempty"`
	Node     string             `json:"node,omitempty"`
	Machine  *Machine           `json:"machine,omitempty"`
	Select   *Selection         `json:"select,omitempty"`
	App      string             `json:"app,omitempty"`
	Spec     *App               `json:"spec,omitempty"`
	Rules    []Rule             `json:"rules,omitempty"`
	Reset    bool               `json:"reset,omitempty"`    // of rule: these replace all earlier ones
	Expected map[string]float64 `json:"expected,omitempty"` // per app; negative: unknown from now on
	// Undeclared lists those of Expected that are counted, as no object declares them. No share of
	// such an app counts.
	Undeclared []string           `json:"undeclared,omitempty"`
	Role       Role               `json:"role,omitempty"`
	Policy     *policy.Object     `json:"policy,omitempty"`  // nil: the role has no policy from now on
	Outside    *policy.Object     `json:"outside,omitempty"` // replaces it outside of windows, where it reads a clock
	Chosen     *FileChoice        `json:"chosen,omitempty"`
	Windows    map[string]*Window `json:"windows,omitempty"` // per group; nil: no window from now on
	Reserved   *Reserved          `json:"reserved,omitempty"`

	Pod       string    `json:"pod,omitempty"`     // namespace/name
	UID       string    `json:"uid,omitempty"`     // in a recording also of a node
	Created   int64     `json:"created,omitempty"` // of place and arrive: the pod's creation, in seconds since 1970
	Arrived   *bool     `json:"arrived,omitempty"` // of place and arrive in a description: the pod's arrival was counted before; nil: the kind determines it
	Past      *Counters `json:"past,omitempty"`
	*Decision           // of decide
}

// A Kind is the kind of an event.
type Kind string

// The kinds of events, each with the fields that it has.
const (
	KindStart    Kind = "start"       // Start: everything before is forgotten
	KindNode     Kind = "node"        // Node, Machine: the node is new or changed
	KindSelector Kind = "selector"    // Select: the selector is new, with the nodes that list it
	KindApp      Kind = "app"         // App, Spec: the app is new, or its constraints changed
	KindForget   Kind = "forget"      // Node or App
	KindRule     Kind = "rule"        // Rules, Reset: more rules, or others
	KindForecast Kind = "forecast"    // Expected, Undeclared: the numbers that changed
	KindWindow   Kind = "window"      // Windows: those that changed
	KindPolicy   Kind = "policy"      // Role, Policy, Outside
	KindChoose   Kind = "choose"      // Role, Chosen: the policy leaves decisions to that file from now on
	KindArrive   Kind = "arrive"      // Pod, UID, App: the pod needs a machine; only the first time counts
	KindPlace    Kind = "place"       // Pod, UID, App, Node: the pod was found there, by another scheduler's decision
	KindDecide   Kind = "decide"      // Pod, UID, App, Node, Decision
	KindFailed   Kind = "bind-failed" // UID: the binding failed
	KindRemove   Kind = "remove"      // UID: the pod was removed
	KindReserve  Kind = "reserve"     // Node, App, Reserved: room is reserved for Pods more pods
	KindRelease  Kind = "release"     // Node, App, Reserved: the reservation of Pods pods ended
	KindPast     Kind = "past"        // Past: the counts from before a description
)

// A Role is the use of a policy.
type Role string

// The roles. BestFit is never loaded: it decides when the others cannot.
const (
	Primary Role = "primary"
	Canary  Role = "canary"
	BestFit Role = "bestfit"
)

// A Start begins a log: a profile of a scheduler starts.
type Start struct {
	Version int    `json:"version"` // of the log's format
	Profile string `json:"profile,omitempty"`
	Fleet   string `json:"fleet"` // open or fixed
	// Units are those of the dimensions that are not counted in 1: cpu is counted
	// in m.
	Units map[string]string `json:"units,omitempty"`
	// AppLabel is the label whose value names a pod's app. Only recordings have it.
	AppLabel string `json:"appLabel,omitempty"`
	// Currency is the unit of machines' hourly costs; "" = units without a meaning of their own.
	Currency string `json:"currency,omitempty"`
	// MaxShareOfApp is the share of a group's declared pods that one node should hold at most,
	// for policies that state none; 0 = no limit, as in logs that are older than the field.
	MaxShareOfApp float64 `json:"maxShareOfApp,omitempty"`
}

// MaxShareOfApp is the value with which schedulers and snapshots start.
const MaxShareOfApp = .5

// Version is the format of the logs that this package writes. It reads version 1
// too, which names the limits of apps max_per_machine and spread_min.
const Version = 2

// A Machine is a node as a policy sees it.
type Machine struct {
	// Refuses lists the selectors, except closed ones, whose apps may not use the machine.
	Refuses []string `json:"refuses,omitempty"`
	// Admits lists the closed selectors whose apps may use it; those of other closed ones may not.
	Admits   []string         `json:"admits,omitempty"`
	Capacity map[string]int64 `json:"capacity"` // in units, minus the demand of immovable pods
	Cost     float64          `json:"cost"`
	Cordoned bool             `json:"cordoned,omitempty"` // it takes no pods and is no candidate
	// Labels name the kind of the node: node pool, instance type, zone. Decisions depend on
	// the zone alone, where an app has a soft term or a limit by zone, or a rule is about zones.
	Labels map[string]string `json:"labels,omitempty"`
}

// A Selection lists the nodes that list a new selector. A node that is added or changed later lists
// it itself. A selector of a log without selections is not closed.
type Selection struct {
	ID     string   `json:"id"`
	Closed bool     `json:"closed,omitempty"` // the nodes admit it and all others refuse it, not vice versa
	Nodes  []string `json:"nodes,omitempty"`  // in order
}

// Allows reports whether a machine may be used by apps with a selector, which is closed or not.
func (m *Machine) Allows(selector string, closed bool) bool {
	if closed {
		return slices.Contains(m.Admits, selector)
	}
	return !slices.Contains(m.Refuses, selector)
}

// AddSelector adds a selector to those that the machine admits, if it is closed, or refuses. Like RemoveSelectors, it
// changes no list that another machine may have.
func (m *Machine) AddSelector(selector string, closed bool) {
	list := &m.Refuses
	if closed {
		list = &m.Admits
	}
	*list = append(slices.Clone(*list), selector)
	slices.Sort(*list)
}

// RemoveSelectors removes selectors from both lists. It reports whether one was there.
func (m *Machine) RemoveSelectors(gone func(selector string) bool) (had bool) {
	for _, list := range []*[]string{&m.Refuses, &m.Admits} {
		if slices.ContainsFunc(*list, gone) {
			had = true
			if *list = slices.DeleteFunc(slices.Clone(*list), gone); len(*list) == 0 {
				*list = nil
			}
		}
	}
	return had
}

// A Counters holds the counts that a description of the present leaves out and policies may read: it ends
// the description with which a log continues, so that no decision changes.
type Counters struct {
	Placed   uint64            `json:"placed"`             // placements
	Departed uint64            `json:"departed"`           // pods that left their machines
	Most     int64             `json:"most,omitempty"`     // pods on nodes at one time
	Last     string            `json:"last,omitempty"`     // app of the latest arrival
	Arrivals map[string]int64  `json:"arrivals,omitempty"` // per app
	LastUsed map[string]uint64 `json:"lastUsed,omitempty"` // per node: placements when it last took a pod
	Opened   map[string]uint64 `json:"opened,omitempty"`   // per node: placements when it last took one while empty
}

// A FileChoice is the file to which a policy that chooses among files leaves its decisions.
type FileChoice struct {
	Name   string `json:"name"`
	Digest string `json:"digest"` // of the file
	By     string `json:"by"`     // digest of the policy that chooses
	// EmptyLast: empty machines are used last, also in a fixed fleet. Former versions wrote it.
	EmptyLast bool `json:"emptyLast,omitempty"`
	// Policy is the file, for programs that ship other files.
	Policy *policy.Object `json:"policy"`
}

// PoolLabels are the keys of [Machine.Labels] that name a node's pool.
var PoolLabels = []string{
	"eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "karpenter.sh/nodepool",
}

// InstanceLabels are those that name its instance type, the current one first.
var InstanceLabels = []string{"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"}

// NamingLabels are the keys of [Machine.Labels].
var NamingLabels = slices.Concat(PoolLabels, InstanceLabels, []string{zoneLabel})

// First returns the value of the first label that a machine has; "" = none.
func (m *Machine) First(keys []string) string {
	for _, key := range keys {
		if value := m.Labels[key]; value != "" {
			return value
		}
	}
	return ""
}

// An App is a set of pods of equal demand.
type App struct {
	Group         string           `json:"group"`
	Selector      string           `json:"selector,omitempty"` // a machine that refuses it takes no pod of the app
	Demand        map[string]int64 `json:"demand"`
	MaxPerMachine int32            `json:"maxPerMachine,omitempty"` // of its group, 0 = no limit
	SpreadMin     int32            `json:"spreadMin,omitempty"`
	// The same by zone, and the number of the group's pods by which a zone may exceed the zone that has
	// fewest. A machine without the label topology.kubernetes.io/zone takes no pod that they bind.
	MaxPerZone    int32 `json:"maxPerZone,omitempty"`
	ZoneSpreadMin int32 `json:"zoneSpreadMin,omitempty"`
	ZoneSkew      int32 `json:"zoneSkew,omitempty"`
	// Soft are the preferences of the pods among those of their group: kind:scope:weight, as in
	// apps.csv of a trace. A machine's zone is its label topology.kubernetes.io/zone.
	Soft []string `json:"soft,omitempty"`
	// Sends is the traffic of one pod to the pods of groups: the texts of [binpack.Sending].
	Sends []string `json:"sends,omitempty"`
}

// A Rule forbids a placement after which a machine holds at least one of App and
// more than Max of Other. Both are groups.
type Rule struct {
	App   string `json:"app"`
	Other string `json:"other"`
	Max   int32  `json:"max"`
	Scope string `json:"scope,omitempty"` // ZoneScope: all machines of a zone; empty: a machine
}

// ZoneScope is the scope of a [Rule] about zones.
const ZoneScope = "zone"

// A Decision records how a pod's node was chosen.
type Decision struct {
	Request      string `json:"request,omitempty"` // the workload of the pod
	PolicyDigest string `json:"policyDigest,omitempty"`
	Mode         string `json:"mode,omitempty"`
	Cause        string `json:"cause"`
	// Clock is the time, in seconds since 1970, of the query of a policy that reads a
	// clock: its window gives the elapsed share.
	Clock float64 `json:"clock,omitempty"`
	// Infeasible lists the machines that the ledger's model allowed and other filters
	// refused; Extra lists those that the model refused and other filters allowed.
	Infeasible []string `json:"infeasible,omitempty"`
	Extra      []string `json:"extra,omitempty"`
	// InfeasibleChange occurs in files only, in place of Infeasible.
	InfeasibleChange *Change `json:"infeasibleChange,omitempty"`
	// Choice is the policy's machine if the pod was assigned to another one: the policy
	// only observes, or other scores outweighed it.
	Choice   string `json:"choice,omitempty"`
	RunnerUp string `json:"runnerUp,omitempty"`
	// Scores are for people; no code reads them.
	Score         float64 `json:"score,omitempty"`
	RunnerUpScore float64 `json:"runnerUpScore,omitempty"`
}

// A Change is the difference of a list from the last list of an app since the start, which a
// decision on the app has whole or as a change.
type Change struct {
	Of      string   `json:"of,omitempty"` // the app; empty = that of the decision
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// The causes of decisions. The reason of a fallback follows the colon.
const (
	CausePolicy    = "policy"
	CausePlanned   = "planned"   // room is reserved for the pod there
	CauseSingle    = "single"    // one node was feasible: no policy was consulted
	CauseNominated = "nominated" // the pod's status named the node, which is tried first
	CauseNeutral   = "neutral"   // the policy does not decide on this workload
	CauseFallback  = "fallback:"
)
