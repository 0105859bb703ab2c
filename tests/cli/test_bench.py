def test_three_classifiers_take_turns(run, monkeypatch):
    from sklearn.svm import LinearSVC

    turns = []

    def quick(name):
        def make(seed):
            turns.append((name, seed))
            return LinearSVC(max_iter=5, random_state=seed)

        return make

    monkeypatch.setattr("tikhonet.cli.bench.classifiers", lambda: {n: quick(n) for n in ("BCDClassifier", "other")})
    document = run("bench", "--repeats", 2, "--seed", 5, "--threads", 1, "--json").document
    assert turns == [("BCDClassifier", 5), ("other", 5), ("BCDClassifier", 6), ("other", 6)]
    assert len(document["results"]["other"]["seconds"]) == 2
    assert document["gflops"]["float32"] > 0
