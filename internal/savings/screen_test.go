package savings

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/shellword"
)

func screenOf(t *testing.T, b *Bill) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, b.Print(&out, false))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.LessOrEqual(t, len(lines), screenLines, out.String())
	for _, line := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(line), screenWidth, line)
	}
	return out.String()
}

// A shell takes the printed commands, in lines as they are, for the words that they are of.
func TestPrintedCommandsAreTyped(t *testing.T) {
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	words := []string{"sigma", "snapshot", "--from", "it's my dump of production, the second.json", "--prices", "a price list; with spaces and $HOME.csv", "--out", "snap"}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellword.Quote(w)
	}
	for _, head := range []string{"", "type first: ", strings.Repeat(" ", 60)} {
		lines := command(head, strings.Join(quoted, " "))
		out, err := exec.Command(bash, "-c", `printf '%s\0' `+strings.TrimPrefix(strings.Join(lines, "\n"), head)).Output()
		require.NoError(t, err)
		require.Equal(t, strings.Join(words, "\x00")+"\x00", string(out))
	}
	tr := messy(20, 1)
	b := billOf(t, tr)
	b.source = Source{Trace: "it's a trace"}
	require.Contains(t, b.source.Path(), `'it'\''s a trace'`)
}

// The nodes to remove are in a command of one line, or in one that lists them: none is cut.
func TestNodesToRemove(t *testing.T) {
	for _, n := range []int{1, 60} {
		tr := messy(20, 1)
		nodes := tr.Source[clusterKey].(map[string]any)["nodes"].(map[string]any)
		for i := range n - 1 {
			nodes[fmt.Sprintf("ip-10-0-0-%03d.eu-central-1.compute.internal", i)] = map[string]any{"why": "cordoned", "cost": .1}
		}
		b := billOf(t, tr)
		require.Len(t, b.Steps[0].Remove, n)
		text := screenOf(t, b)
		if n == 1 {
			require.Contains(t, text, "kubectl delete node cordoned\n")
		} else {
			require.Contains(t, text, "    sigma savings --trace snap --format json | jq -r '.steps[0].remove[]'\n")
		}
		var page strings.Builder
		require.NoError(t, b.Page().HTML(&page))
		for _, name := range b.Steps[0].Remove {
			require.Contains(t, page.String(), name)
		}
	}
	require.Equal(t, "kubectl delete node 'a b' c", deletion([]string{"a b", "c"}))
}

// Names of strangers do not steer the terminal.
func TestCleanScreen(t *testing.T) {
	tr := messy(20, 1)
	nodes := tr.Source[clusterKey].(map[string]any)["nodes"].(map[string]any)
	nodes["\x1b[2Jnode"] = map[string]any{"why": "cordoned\r\x1b]0;title\a", "cost": .1}
	tr.Name = "prod\x1b[31m"
	text := screenOf(t, billOf(t, tr))
	require.NotRegexp(t, "[\x00-\x09\x0b-\x1f\x7f\u0080-\u009f]", text)
	require.Contains(t, text, "prod�[31m: ")
}

var amount = regexp.MustCompile(` ([0-9,]+(?:\.\d\d)?)(?: ±[0-9,.]+)?(?: +[0-9,.]+)?$`)

// The printed parts and the printed least are the printed cost, and none is above its printed limit.
func TestPartsAreTheWholeAsPrinted(t *testing.T) {
	figure := func(text string) float64 {
		v, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
		require.NoError(t, err)
		return v
	}
	for seed := range uint64(8) {
		for _, factor := range []float64{1, .013, 7.7771} {
			tr := messy(20, seed)
			for i := range tr.Instance.Machines {
				tr.Instance.Machines[i].Cost *= factor
			}
			b := billOf(t, tr)
			require.False(t, b.empty())
			text := screenOf(t, b)
			first := regexp.MustCompile(`(?m)^cost ([0-9,.]+) USD a month; cannot be below ([0-9,.]+)`).FindStringSubmatch(text)
			require.NotNil(t, first, text)
			sum, rows := figure(first[2]), 0
			for line := range strings.SplitSeq(text, "\n") {
				if m := amount.FindStringSubmatch(line); m != nil && !strings.Contains(line, "not added") && !strings.HasPrefix(line, "cost") && (strings.HasPrefix(line, "  ") || strings.HasPrefix(line, restText)) && !strings.HasPrefix(line, "    ") {
					if strings.Contains(line, " unknown ") {
						continue
					}
					sum += figure(m[1])
					rows++
				}
			}
			require.GreaterOrEqual(t, rows, 4, text)
			require.InDelta(t, figure(first[1]), sum, 1e-6, text)
			for i, shown := range b.parts()[:len(b.Steps)] {
				require.LessOrEqual(t, figure(b.money(shown)), figure(b.atMost(b.Steps[i].Bound, shown)), b.Steps[i].Cause)
			}
		}
	}
}

// Lines that the screen lacks are counted, and their heads are named.
func TestMoreRemarks(t *testing.T) {
	r := remark{"No room", nil}
	for i := range 20 {
		r.groups = append(r.groups, fmt.Sprintf("ip-10-0-0-%d cordoned (140)", i))
	}
	line := r.line()
	require.LessOrEqual(t, utf8.RuneCountInString(line), screenWidth)
	require.Equal(t, "No room: ip-10-0-0-0 cordoned (140); ip-10-0-0-1 cordoned (140); 18 more", line)
	long := remark{"Pending", []string{"1 " + strings.Repeat("long reason ", 9), "2 short"}}.line()
	require.LessOrEqual(t, utf8.RuneCountInString(long), screenWidth)
	require.Regexp(t, `long …; 1 more$|reason …; 1 more$`, long)
	require.Equal(t, "Not read: Pod", remark{"Not read", []string{"Pod"}}.line())

	tr := messy(20, 1)
	b := billOf(t, tr)
	for i := range 12 {
		b.unplaced = append(b.unplaced, "x")
		b.Missing = append(b.Missing, fmt.Sprint("Kind", i))
	}
	b.Constraint = append(b.Constraint, ConstraintCost{What: "anti-affinity of " + strings.Repeat("n", 40) + "/Deployment/" + "abc"})
	b.Steps = append(b.Steps, b.Steps[0], b.Steps[0], b.Steps[0])
	require.Contains(t, screenOf(t, b), "\nMore by --report FILE or --format json: ")
}

// The screen and the page show the nodes that a step saves with one sign, that of the JSON.
func TestOneSignOfNodes(t *testing.T) {
	tr := messy(30, 1)
	b := billOf(t, tr)
	require.Positive(t, b.Steps[0].Nodes)
	require.Regexp(t, fmt.Sprintf(`(?m)^  remove 1 empty node, move .* %s +[0-9,]+ +[0-9,]+$`, fewer(b.Steps[0].Nodes)), screenOf(t, b))
	var page strings.Builder
	require.NoError(t, b.Page().HTML(&page))
	require.Contains(t, page.String(), "nodes saved")
	require.Contains(t, page.String(), ">"+fewer(b.Steps[0].Nodes)+"<")
	require.Equal(t, "0", fewer(-.01))
}

// Each line has its limit, also where the money is not known.
func TestUnknownLinesHaveLimits(t *testing.T) {
	b := billOf(t, messy(30, 1))
	unknown := 0
	for i := range b.Steps {
		if s := &b.Steps[i]; s.Money == nil {
			unknown++
			require.Positive(t, s.Bound, s.Cause)
		}
	}
	require.Equal(t, 2, unknown)
	require.Len(t, regexp.MustCompile(`(?m) unknown +[0-9,]+$`).FindAllString(screenOf(t, b), -1), unknown)
}

// The names of the constraints are ones that commands take.
func TestNamesOfConstraints(t *testing.T) {
	tr := messy(30, 2)
	b := billOf(t, tr)
	require.NotEmpty(t, b.Constraint)
	for _, c := range b.Constraint {
		_, err := Without(tr, c.What)
		require.NoError(t, err, c.What)
	}
	_, err := Without(tr, "local")
	require.ErrorContains(t, err, `no constraint "local"`)
	_, err = Without(tr, "node restrictions")
	require.NoError(t, err)
}

// Each reason for which pods stay reads as English in the line of the constraint and in that of the pods.
func TestReasonsOfPodsThatStay(t *testing.T) {
	for why, want := range map[string]string{
		"it has no controller that would replace it":                           "pods without a controller",
		"it has no controller that would replace it, and it has local storage": "pods without a controller and with local storage",
		"it is being deleted":        "pods being deleted",
		"it is not ready":            "pods not ready",
		"its work would begin again": "pods whose work would begin again",
		"its annotation forbids it: karpenter.sh/do-not-disrupt": "pods with the annotation karpenter.sh/do-not-disrupt",
		"it has local storage": "pods with local storage",
		"its terminationGracePeriodSeconds of 3600 s is above the ceiling of 15m0s":                           "pods whose terminationGracePeriodSeconds of 3600 s is above the ceiling of 15m0s",
		"its workload has 1 of the 2 pods that it should keep":                                                "pods whose workload has 1 of the 2 pods that it should keep",
		"its disruption budget allows no eviction now":                                                        "pods whose disruption budget allows no eviction now",
		"it has 2 disruption budgets, so that no eviction succeeds":                                           "pods with 2 disruption budgets, so that no eviction succeeds",
		"the placement rule far is about zones":                                                               "pods that stay: the placement rule far is about zones",
		"another scheduler places it: volcano":                                                                "pods of the scheduler volcano",
		"its node stays: control plane":                                                                       "pods on nodes that stay: control plane",
		"where it may go depends on its volumes":                                                              "pods with volumes",
		"where it may go depends on its volumes, its host ports":                                              "pods with volumes, host ports",
		"where it may go depends on its host ports":                                                           "pods with host ports",
		"where it may go depends on its resource claims":                                                      "pods with resource claims",
		"where it may go depends on its spec.schedulingGroup":                                                 "pods with spec.schedulingGroup",
		"where it may go depends on the devices that a driver serves":                                         "pods bound by the devices that a driver serves",
		"where it may go depends on its resize, which is under way":                                           "pods with resize, which is under way",
		"where it may go depends on the restartPolicyRules of its container main":                             "pods bound by the restartPolicyRules of the container main",
		"where it may go depends on its topology spread":                                                      "pods with topology spread",
		"where it may go depends on its topology spread, while pods are on cordoned nodes":                    "pods with topology spread",
		"where it may go depends on its topology spread, which not all pods of its workload have":             "pods with topology spread, which not all pods of their workload have",
		"where it may go depends on its anti-affinity by rack":                                                "pods with anti-affinity by rack",
		"where it may go depends on its anti-affinity, which selects kube-system/a, a part of its node":       "pods with anti-affinity, which selects kube-system/a, a part of its node",
		"where it may go depends on the anti-affinity of shop/web-1, which selects some pods of its workload": "pods bound by the anti-affinity of shop/web-1, which selects some pods of their workload",
		"where it may go depends on the zones of others":                                                      "pods bound by the zones of others",
		"the owner says so": "pods that stay: the owner says so",
	} {
		require.Equal(t, want, stayers(why), why)
	}
	tr := listed()
	fixed := map[string]any{}
	for _, q := range tr.Requests {
		fixed[q.Name] = "it is being deleted"
	}
	tr.Instance.Apps[0].Demand = []int64{1900, 4 << 30}
	tr.Source["fixed"] = fixed
	text := screenOf(t, billOf(t, tr))
	require.Regexp(t, `(?m)^  not added: moving pods being deleted +3 `, text)
	require.Contains(t, text, "\nMust not move: 8 being deleted\n")
}

// A name is beside the figures or above them, and cut where it is longer than the screen alone.
func TestLinesOfConstraints(t *testing.T) {
	for n := range 59 {
		b := &Bill{Constraint: []ConstraintCost{{What: strings.Repeat("x", n), Nodes: 3, Money: 14000, Bound: 20000}}}
		text := ""
		for _, line := range b.rules() {
			require.LessOrEqual(t, utf8.RuneCountInString(line.text), screenWidth)
			text += line.text + "\n"
		}
		require.Contains(t, text, "without "+strings.Repeat("x", n))
		require.Regexp(t, ` 3 +140 +200\n$`, text)
	}
	b := &Bill{Constraint: []ConstraintCost{{Kind: stays}, {Kind: stays}, {Kind: allowed}}}
	require.Len(t, b.rules(), 2, "one of each kind")
	b = &Bill{Constraint: []ConstraintCost{{What: stayers("its " + strings.Repeat("long ", 20))}}}
	require.LessOrEqual(t, utf8.RuneCountInString(b.rules()[0].text), screenWidth)
}

// The prices of Windows nodes are named as those of Linux, on the screen and on the page.
func TestPricesOfWindows(t *testing.T) {
	tr := messy(20, 1)
	tr.Source[clusterKey].(map[string]any)["prices"] = map[string]any{"built-in list": 18, "model of Linux": 2}
	b := billOf(t, tr)
	require.Contains(t, screenOf(t, b), "\nPrices: 2 Windows nodes as in a linear model of Linux (docs/prices.md)\n")
	var page strings.Builder
	require.NoError(t, b.Page().HTML(&page))
	require.Contains(t, page.String(), "18 nodes by built-in list, 2 nodes by model of Linux")
}

// The commands of the page are to be copied, and no name of a stranger begins a line of them.
func TestCommandsOfThePage(t *testing.T) {
	tr := messy(20, 1)
	nodes := tr.Source[clusterKey].(map[string]any)["nodes"].(map[string]any)
	nodes["a\nrm -r b"] = map[string]any{"why": "cordoned", "cost": .1}
	b := billOf(t, tr)
	b.Steps[0].advice = "risk: a\nrm -r b"
	for _, s := range b.Page().Sections {
		if s.ID != "steps" && s.ID != "constraints" {
			continue
		}
		require.NotEmpty(t, s.Copy)
		for line := range strings.SplitSeq(strings.TrimSuffix(s.Copy, "\n"), "\n") {
			require.Regexp(t, "^(# |sigma |  sigma )", line)
		}
		for i := range b.Steps {
			if s.ID == "steps" && b.Steps[i].Command != "" {
				require.Contains(t, s.Copy, "\n"+strings.ReplaceAll(b.Steps[i].Command, "&& ", "&&\n  ")+"\n")
			}
		}
	}
}
