package v1alpha1

// The probe of whether API servers reach the webhook that sizes new pods: a ConfigMap that is only ever created in a
// dry run.
const (
	// ProbeWebhook is the name, in the webhook's configuration, of the one that marks it.
	ProbeWebhook = "probe." + GroupName
	// ProbeName is its name.
	ProbeName = "sigma-mpa-webhook-probe"
	// ProbeMark is the annotation that the webhook adds.
	ProbeMark = GroupName + "/reached"
)
