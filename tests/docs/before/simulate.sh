cp ~/carma/data/traces/demo60.csv last-month.csv
cp ~/carma/data/workloads/catalogue.csv ours.csv
# The experiment that the page shows.
sed -n '/^```toml/,/^```/{/^```/d;p}' ~/carma/docs/use/simulate.md > experiment.toml
