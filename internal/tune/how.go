package tune

import (
	"cmp"
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/internal/export"
	"github.com/sigma-scheduler/sigma/internal/shellword"
)

// installedName is the policy that the manifests' scheduler follows.
const installedName = "general"

// How returns instructions for using the chosen policy.
func (out *Result) How() string {
	switch {
	case !out.Better && out.Preferences != nil:
		return "The file that is written is the policy in force with the price of preferences.\n"
	case !out.Better:
		return ""
	case out.target.runsFiles() && out.Object != nil:
		text := fmt.Sprintf("To use it: kubectl apply -f %s. It is in shadow: it decides nothing before its spec.mode is canary or live.\n", shellword.Quote(out.Chosen))
		if name := out.Object.Metadata.Name; name != installedName {
			text += fmt.Sprintf("The manifests' scheduler follows the policy %s: write the file to %s.yaml, or give the scheduler the policyName %s.\n", installedName, installedName, name)
		}
		return text
	case out.target.runsFiles():
		return fmt.Sprintf("To use it, apply this file:\n"+
			"  apiVersion: sigma-scheduler.io/v1alpha1\n  kind: PlacementPolicy\n  metadata: {name: %s}\n"+
			"  spec: {featureVersion: 1, model: rule, knowledge: K0, features: [], weights: [], rule: {name: %s}, mode: shadow}\n", installedName, out.Chosen)
	case out.Chosen == "leastallocated" && out.target != KubeScheduler:
		return "It is the scheduler's default: leave the cluster's setting as it is.\n"
	}
	c := out.choice()
	if err := export.Check(c, string(out.target)); err != nil {
		return err.Error() + "\n"
	}
	text, err := export.Text(c, string(out.target), cmp.Or(out.objectName(), c.Name))
	if err != nil {
		return err.Error() + "\n"
	}
	return places[out.target] + text
}

// places are the instructions for the configuration of a target.
var places = map[Target]string{
	KubeScheduler: "To use it, in the configuration of kube-scheduler (it switches all other scores off, among them preferred affinity, soft spread and taints; see Export in docs/tune.md):\n",
	EKS:           "To use it, as the cluster's kubeSchedulerConfig (the other scores of the default profile stay in force, which the replay does not know):\n",
	AKS:           "To use it, apply this object, and name the profile in the schedulerName of pods (it switches all other scores off for them, among them preferred affinity, soft spread and taints):\n",
}

func (out *Result) objectName() string {
	if out.Object == nil {
		return ""
	}
	return out.Object.Metadata.Name
}

// choice is the chosen rule.
func (out *Result) choice() rule.Choice {
	if out.Object != nil {
		return out.Object.Spec.Rule.Choice
	}
	return rule.Choice{Name: out.Chosen}
}
