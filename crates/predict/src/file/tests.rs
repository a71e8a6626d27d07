use proptest::prelude::*;

use super::*;

/// A file of a small network whose numbers differ from each other.
fn sample() -> File {
    let numbers = |count: usize, from: usize| {
        (from..from + count).map(|k| (k * 7 % 13) as f32 / 13.0 - 0.5).collect::<Vec<f32>>()
    };
    let layer = |kind, inputs: usize, outputs: usize, kernel: usize, stride| Written {
        kind,
        inputs,
        outputs,
        kernel,
        stride,
        weights: numbers(inputs * outputs * kernel, outputs),
        biases: numbers(outputs, inputs),
    };
    let mut file = File {
        format: FORMAT.to_owned(),
        version: VERSION,
        command: "none".to_owned(),
        data: "none".to_owned(),
        seed: 1,
        threshold: 0.5,
        figures: BTreeMap::from([("auc".to_owned(), 0.5)]),
        mean: [0.25; FEATURES],
        deviation: [2.0; FEATURES],
        checksum: String::new(),
        layers: vec![
            layer(Kind::Conv, FEATURES, 3, 3, 4),
            layer(Kind::Dense, 12, 2, 1, 1),
            layer(Kind::Dense, 2, 1, 1, 1),
        ],
    };
    file.checksum = checksum(&file);
    file
}

fn text(file: &File) -> String {
    serde_json::to_string_pretty(file).unwrap()
}

fn said(text: &str) -> String {
    let error = parse(text, "a.json").expect_err("it is no network").to_string();
    assert!(error.lines().count() == 1 && error.starts_with("a.json: "), "{error}");
    error
}

/// The error after a change that keeps the checksum right.
fn refused(change: impl FnOnce(&mut File)) -> String {
    let mut file = sample();
    change(&mut file);
    file.checksum = checksum(&file);
    said(&text(&file))
}

/// The network by its definition, one output after the other.
fn naive(file: &File, input: &Input) -> f64 {
    let scaled = |(figure, index): (&f32, usize)| {
        let squashed = f64::from(figure.abs()).ln_1p().copysign(f64::from(*figure));
        ((squashed - f64::from(file.mean[index])) / f64::from(file.deviation[index])).clamp(-8.0, 8.0)
    };
    let mut windows: Vec<Vec<f64>> =
        input.0.iter().map(|row| row.iter().zip(0..).map(scaled).collect()).collect();
    for (number, layer) in file.layers.iter().enumerate() {
        if layer.kind == Kind::Dense {
            windows = vec![windows.concat()];
        }
        let starts = (0..=windows.len() - layer.kernel).step_by(layer.stride);
        let output = |start: usize, output: usize| {
            let mut sum = f64::from(layer.biases[output]);
            for (place, window) in windows[start..start + layer.kernel].iter().enumerate() {
                for (input, value) in window.iter().enumerate() {
                    let weight = layer.weights[(output * layer.inputs + input) * layer.kernel + place];
                    sum += f64::from(weight) * value;
                }
            }
            if number + 1 < file.layers.len() { sum.max(0.0) } else { sum }
        };
        windows = starts.map(|start| (0..layer.outputs).map(|o| output(start, o)).collect()).collect();
    }
    1.0 / (1.0 + (-windows[0][0]).exp())
}

#[test]
fn each_fault_has_a_line_that_names_it() {
    assert!(said("").starts_with("a.json: line 1 column 0: "));
    assert!(said("{}").contains("format: missing; weights have `framewire-loss-network`"));
    assert!(refused(|file| file.format = "x\ny".to_owned()).contains("format: `x y`"));
    assert!(refused(|file| file.version = 2).contains("version: 2; this build reads 1"));
    assert!(refused(|file| file.threshold = 1.5).contains("threshold: 1.5; 0 to 1 is possible"));
    assert!(refused(|file| file.deviation[3] = 0.0).contains("deviation[3]: 0; 0.001 to 1000"));
    assert!(refused(|file| file.layers.clear()).contains("length of layers: 0; 1 to 12"));
    assert!(
        refused(|file| file.layers[1].inputs = 1 << 40)
            .contains("layers[1].inputs: 1099511627776; 1 to 1024")
    );
    assert!(refused(|file| file.layers[0].stride = 0).contains("layers[0].stride: 0; 1 to 16"));
    assert!(
        refused(|file| _ = file.layers[1].weights.pop()).contains("layers[1].weights: 23 numbers; 24 belong")
    );
    assert!(
        refused(|file| _ = file.layers[2].biases.pop()).contains("layers[2].biases: 0 numbers; 1 belong")
    );
    assert!(
        refused(|file| file.layers[0].weights[5] = 2e3).contains("layers[0].weights[5]: 2000; -1000 to 1000")
    );
    assert!(refused(|file| _ = file.layers.pop()).contains("layers: the last one gives 1 x 2; one number"));
    assert!(
        refused(|file| _ = file.layers.remove(1))
            .contains("layers[1].inputs: 2; the layer before it gives 12")
    );
    let mut file = sample();
    file.layers[0].weights[0] += 0.5;
    assert!(said(&text(&file)).contains("checksum: `"), "{}", said(&text(&file)));
    let sound = text(&sample());
    assert!(said(&sound.replace("\"seed\"", "\"seeds\"")).contains("unknown field `seeds`"));
    assert!(said(&sound.replace("\"seed\": 1", "\"seed\": 1e999")).contains("number out of range"));
}

#[test]
fn a_torn_file_names_its_end() {
    let text = text(&sample());
    for end in (0..text.len()).step_by(17) {
        assert!(said(&text[..end]).contains(": line "));
    }
}

#[test]
fn files_that_are_missing_binary_or_huge_are_refused() {
    let folder = std::env::temp_dir().join(format!("framewire-predict-file-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let refused = |name: &str, bytes: Option<&[u8]>| {
        let path = folder.join(name);
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes).unwrap();
        }
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains(name) && error.lines().count() == 1, "{error}");
        error
    };
    assert!(refused("none.json", None).contains("name weights that can be read"));
    assert!(refused("binary.json", Some(&[b'{', 0xff])).contains("byte 1: no UTF-8"));
    assert!(refused("huge.json", Some(&vec![b' '; LARGEST as usize + 1])).contains("no network is so large"));
    std::fs::write(folder.join("good.json"), text(&sample())).unwrap();
    assert_eq!(read(&folder.join("good.json")), parse(&text(&sample()), "good.json"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_checksum_is_the_usual_one() {
    let mut file = sample();
    file.layers.clear();
    (file.mean, file.deviation) = ([0.0; FEATURES], [1.0; FEATURES]);
    // Python: zlib.crc32(struct.pack("<16f", *[0.0] * 8, *[1.0] * 8))
    assert_eq!(checksum(&file), "9a27c45a");
}

#[test]
fn the_shipped_file_says_where_it_comes_from() {
    let network = Network::shipped();
    let about = network.about();
    assert!(about.command.contains("loss_predictor") && about.data.contains("runs"));
    assert!(about.figures.contains_key("auc") && (0.0..1.0).contains(&about.threshold));
    assert!((1_000..200_000).contains(&network.parameters()), "{}", network.parameters());
}

proptest! {
    #[test]
    fn no_text_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        oracle(&bytes);
    }

    #[test]
    fn a_changed_file_is_refused_or_sound(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0x20u8..0x7f), 1..4)
    ) {
        let mut bytes = text(&sample()).into_bytes();
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        oracle(&bytes);
    }

    #[test]
    fn it_is_the_network_of_the_definition(figures in prop::array::uniform16(prop::array::uniform8(-50.0f32..50.0))) {
        let file = sample();
        let mut network = parse(&text(&file), "a.json").unwrap();
        let input = Input(figures);
        let (said, expected) = (f64::from(network.probability(&input)), naive(&file, &input));
        prop_assert!((said - expected).abs() < 1e-5, "{said}, not {expected}");
    }
}
