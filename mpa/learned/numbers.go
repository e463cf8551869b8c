package learned

// A Number of a policy.
type Number struct {
	Name, Unit string
	// A policy has it within Min and Max; Default is set by hand.
	Min, Max, Default float64
	// Fixed numbers are not searched: the scenarios of training are too short to show them.
	Fixed bool
	Help  string
}

// The numbers by index of [Values].
const (
	costNewest = iota
	jumpFrom
	jumpGain
	trendAhead
	recentShare
	hourShare
	firstShare
	noiseDeviations
	usualShare
	betaFirst
	betaLeast
	betaMost
	kappa
	betaUp
	betaDown
	upSeconds
	downSeconds
	calmShare
	budgetFrom
	budgetGain
	shortShare
	shortBusy
	holdSeconds
	spare
	lessShare
	growMost
	fewerSeconds
	fewerShare
	memoryMargin
	memorySway
	memoryTight
	memoryGrowth
	memoryWait
	memoryKill
	memoryStart
	numbers
)

// Numbers describes the numbers of a policy, in their order.
var Numbers = [numbers]Number{
	costNewest:      {Name: "costNewest", Unit: "share", Min: .01, Max: .5, Default: .08, Help: "weight of the newest cpu per request"},
	jumpFrom:        {Name: "jumpFrom", Unit: "factor", Min: 1.05, Max: 3, Default: 1.3, Help: "demand at the end of the window ÷ its mean, above which it jumps"},
	jumpGain:        {Name: "jumpGain", Unit: "factor", Min: 0, Max: 6, Default: 4, Help: "window of the rate ÷ 15 s: a rise within 15 s is that many times as steep"},
	trendAhead:      {Name: "trendAhead", Unit: "s", Min: 0, Max: 300, Default: 90, Help: "how far ahead the trend of 4 min is followed"},
	recentShare:     {Name: "recentShare", Unit: "share", Min: 0, Max: 1, Default: .5, Help: "of the largest demand of 10 min that is always expected"},
	hourShare:       {Name: "hourShare", Unit: "share", Min: 0, Max: 1, Default: .2, Help: "of the largest demand of an hour that is always expected"},
	firstShare:      {Name: "firstShare", Unit: "share", Min: 0, Max: 1, Default: .36, Help: "of the cores that the pods had at first, that are always expected within a day"},
	noiseDeviations: {Name: "noiseDeviations", Unit: "sd", Min: 0, Max: 3, Default: .7, Help: "over the mean demand of 5 min that are expected"},
	usualShare:      {Name: "usualShare", Unit: "share", Min: 0, Max: 1.2, Default: 1, Fixed: true, Help: "of the usual demand of the next 10 min of the day that is expected"},
	betaFirst:       {Name: "betaFirst", Unit: "–", Min: .1, Max: 3, Default: .6, Help: "slack β with which it begins"},
	betaLeast:       {Name: "betaLeast", Unit: "–", Min: .02, Max: 1, Default: .25, Help: "least slack"},
	betaMost:        {Name: "betaMost", Unit: "–", Min: 1, Max: 6, Default: 3, Help: "largest slack"},
	kappa:           {Name: "kappa", Unit: "–", Min: 0, Max: 2, Default: .7, Help: "share κ of u that each pod has beside its work"},
	betaUp:          {Name: "betaUp", Unit: "factor", Min: 1.02, Max: 2, Default: 1.2, Help: "of the slack when latency is above the promise"},
	betaDown:        {Name: "betaDown", Unit: "factor", Min: .7, Max: .995, Default: .94, Help: "of the slack while latency is calm"},
	upSeconds:       {Name: "upSeconds", Unit: "s", Min: 15, Max: 600, Default: 90, Help: "between two steps up of the slack"},
	downSeconds:     {Name: "downSeconds", Unit: "s", Min: 60, Max: 1800, Default: 300, Help: "between two steps down of the slack"},
	calmShare:       {Name: "calmShare", Unit: "share", Min: .3, Max: .98, Default: .8, Help: "of the promised latency below which it is calm"},
	budgetFrom:      {Name: "budgetFrom", Unit: "share", Min: 0, Max: 1.5, Default: .5, Help: "of the error budget above which slack is added"},
	budgetGain:      {Name: "budgetGain", Unit: "factor", Min: 0, Max: 2, Default: .5, Help: "slack added for a whole budget more"},
	shortShare:      {Name: "shortShare", Unit: "share", Min: .6, Max: 1, Default: .85, Help: "of the rate per pod at which something other than cpu ran short that a pod gets at most"},
	shortBusy:       {Name: "shortBusy", Unit: "share", Min: .3, Max: .9, Default: .6, Help: "of the cpu in use, below which something else runs short"},
	holdSeconds:     {Name: "holdSeconds", Unit: "s", Min: 60, Max: 1800, Default: 420, Help: "whose largest need is kept when something shrinks"},
	spare:           {Name: "spare", Unit: "factor", Min: 1, Max: 1.3, Default: 1.03, Help: "of the need that a new size has"},
	lessShare:       {Name: "lessShare", Unit: "share", Min: .5, Max: .89, Default: .87, Help: "of the present cpu below which pods shrink"},
	growMost:        {Name: "growMost", Unit: "factor", Min: 1.1, Max: 1.5, Default: 1.5, Help: "by which pods grow at most before there are more of them"},
	fewerSeconds:    {Name: "fewerSeconds", Unit: "s", Min: 120, Max: 3600, Default: 900, Help: "without a change, before pods become fewer and larger"},
	fewerShare:      {Name: "fewerShare", Unit: "share", Min: .5, Max: .99, Default: .85, Help: "of the present number of pods that must be enough before there are fewer"},
	memoryMargin:    {Name: "memoryMargin", Unit: "factor", Min: 1.2, Max: 3, Default: 1.5, Help: "of the largest memory of a day that pods have"},
	memorySway:      {Name: "memorySway", Unit: "factor", Min: 0, Max: 4, Default: 1.5, Help: "of what memory moves by, over the largest"},
	memoryTight:     {Name: "memoryTight", Unit: "share", Min: .2, Max: 1, Default: .5, Help: "of the margin, with less of which memory grows"},
	memoryGrowth:    {Name: "memoryGrowth", Unit: "power", Min: 0, Max: 2, Default: 1, Help: "of the growth of a pod's work, by which the sway grows"},
	memoryWait:      {Name: "memoryWait", Unit: "s", Min: 900, Max: 14400, Default: 2700, Help: "before memory first shrinks"},
	memoryKill:      {Name: "memoryKill", Unit: "factor", Min: 1, Max: 3, Default: 1.3, Help: "of what a container had when it ran out of memory, that counts as needed"},
	memoryStart:     {Name: "memoryStart", Unit: "share", Min: 0, Max: 1, Default: .6, Help: "of the memory that pods had at first, that they keep for a day"},
}

// Values are the numbers of a policy.
type Values [numbers]float64

// Defaults returns the numbers that are set by hand.
func Defaults() (v Values) {
	for i, n := range Numbers {
		v[i] = n.Default
	}
	return v
}
