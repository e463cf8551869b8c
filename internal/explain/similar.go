package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// SimilarRequests lists the requests with the closest names, as the end of a message
// about an unknown name.
func SimilarRequests(name string, requests []trace.Request) string {
	const most = 5
	type close struct {
		name     string
		distance int
	}
	var list []close
	limit := max(2, len(name)/3)
	for _, q := range requests {
		if d := distance(name, q.Name); d <= limit {
			list = append(list, close{q.Name, d})
		}
	}
	if len(list) == 0 {
		if len(requests) == 0 {
			return "; it has none"
		}
		return fmt.Sprintf("; it has %d, from %s to %s", len(requests), requests[0].Name, requests[len(requests)-1].Name)
	}
	slices.SortStableFunc(list, func(a, b close) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range list[:min(most, len(list))] {
		names = append(names, c.name)
	}
	return "; close to it are " + strings.Join(names, ", ")
}

// distance is the smallest number of letters to add, drop or change (Levenshtein 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
