package generate

// singleParam belongs to kinds with requests of several items.
var singleParam = Param{
	Name: "single", Max: 1, Integer: true, Unstated: true,
	Help: "1: every item is a request of its own, at the same time: as kube-scheduler gets the pods of a workload",
}

// singles splits requests into their items.
func singles(arrivals []arrival) []arrival {
	var out []arrival
	for _, a := range arrivals {
		for i := range a.deletes {
			out = append(out, arrival{time: a.time, app: a.app, deletes: a.deletes[i : i+1]})
		}
	}
	return out
}
